package report

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"lapse/correlate/incidents"
	"lapse/correlate/model"
	"lapse/timeline"
)

func TestMarkdownReadsAsCommitted(t *testing.T) {
	for _, sample := range slices.Sorted(maps.Keys(samples)) {
		golden(t, sample+".md", render(t, "markdown", sample, Options{RunDir: "runs/20261121T022040Z-7d1"}))
	}
}

// evils are what somebody who may name a Pod or write an event might try on the readers of a comment.
var evils = []string{
	"@kubernetes/admins", "look @octocat", "#1", "closes #1 and GH-2", "octo/repo#3", "https://evil.example/x", "www.evil.example",
	"me@evil.example", "[click](https://evil.example)", "![x](https://evil.example/pixel.png)", "<img src=x onerror=alert(1)>", "<https://evil.example>",
	"</details><script>alert(1)</script>", "**bold** _em_ __strong__ ~~gone~~", "`code` ``two`` ```", "`", "``` `` `", "a | b | c", "a\\|b|c\\", "| `", "\\`x`\\",
	"# heading", "- item", "1. item", "> quote", "---", "===", "\n\n# PASS\n\n", "\r\n| PASS |", ":smile: :tada:", "$x^2$", "&lt;b&gt; &#64;octocat", "[^1]: note",
	"[ref]: https://evil.example", "[ref]", "![]", "http://[::1]/`@octocat`", "a`@octocat`b", "``@octocat", "\u202e@octocat", "*", "_", "<", "<!--", "-->", "{{x}}", "~~~", "\t@octocat", "< b>", "< script>alert(1)< /script>", "< !-- x -->",
	"xmpp:evil@evil.example", "mailto:me@evil.example", "@octocat|@octocat", "`@octocat|@octocat`", "\x00@octocat",
}

// everywhere puts text into every place of a run that something else than Lapse writes.
func everywhere(text string) *model.Timeline {
	tl := race()
	tl.Run.Services[0].Name, tl.Run.Aborted, tl.Run.URLs = text, text, []string{text}
	tl.Run.Command.Args = []string{"kubectl", text}
	tl.Verdict.Gates[0].Expr, tl.Verdict.Validity.Control, tl.Verdict.Validity.LanesOff = text, text, []string{text}
	tl.Verdict.Reasons = []string{text}
	w := &tl.Windows[0]
	w.Classes = map[string]int{text: 3}
	w.Target = text
	c := &w.Causes[0]
	c.Rule, c.Confidence, c.Text, c.Fix, c.Rivals = text, model.Confidence(text), "node2 still routed to "+text+" for 71 ms", text, []string{text}
	tl.Targets[0].Name, tl.Targets[0].AchievedRate = text, 1
	tl.Unobserved = []model.Unobserved{{Target: text, Start: 1 * s, End: 2 * s, Reason: text}}
	tl.Incidents = incidents.Of(tl, s)
	tl.Incidents[0].Targets = []string{text, "web reused"}
	tl.Incidents[0].Triggers = []model.Trigger{{Kind: model.NodeDrained, Text: "drain of " + text}}
	return tl
}

// active is what GitHub and GitLab make something of in plain text.
var active = regexp.MustCompile(`(?i)@\w|#\d|\bgh-\d|://|\bwww\.|mailto:|xmpp:|:[a-z]\w*:|\$`)

// A CommonMark parser with GitHub's extensions must find nothing in the document but what Lapse wrote itself.
func TestUntrustedTextIsNothingButTextInMarkdown(t *testing.T) {
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser()
	shape := func(t *testing.T, evil string) string {
		t.Helper()
		var out strings.Builder
		if err := Markdown(&out, said(everywhere(evil)), Options{RunDir: evil, Verbose: true}); err != nil {
			t.Fatal(err)
		}
		source := []byte(out.String())
		var blocks strings.Builder
		err := ast.Walk(parser.Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if !entering {
				return ast.WalkContinue, nil
			}
			switch n.Kind().String() {
			case "CodeSpan":
				return ast.WalkSkipChildren, nil
			case "Text":
				if plain := string(n.(*ast.Text).Value(source)); active.MatchString(plain) {
					t.Errorf("%q is more than text in %q", evil, plain)
				}
				return ast.WalkContinue, nil
			case "Link", "AutoLink", "Image", "RawHTML", "HTMLBlock", "FencedCodeBlock", "CodeBlock", "Blockquote", "ThematicBreak", "Strikethrough", "FootnoteLink":
				t.Errorf("%q made a %s", evil, n.Kind())
			}
			if n.Type() == ast.TypeBlock {
				fmt.Fprintf(&blocks, "%s %d\n", n.Kind(), n.ChildCount()*btoi(strings.HasPrefix(n.Kind().String(), "Table")))
			}
			return ast.WalkContinue, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return blocks.String()
	}
	want := shape(t, "web")
	for _, evil := range evils {
		if got := shape(t, evil); got != want {
			t.Errorf("%q changes the document's shape to\n%s", evil, got)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// 60 KB hold whatever the run, and what was left out is said.
func TestMarkdownStaysSmallWhateverTheRun(t *testing.T) {
	for _, filler := range []string{"x", "` ", "@ ", "漢", "``````", "\x01"} {
		tl := many()
		long := strings.Repeat(filler, 1_000)
		tl.Run.Command.Args = []string{long}
		tl.Run.Aborted, tl.Verdict.Validity.Control = long, long
		for i := range tl.Windows {
			cause := tl.Windows[i].Causes[0]
			cause.Text, cause.Fix, cause.Rule = fmt.Sprint(i, long), long, long
			tl.Windows[i].Causes = []model.Cause{cause}
			tl.Windows[i].Classes = map[string]int{long: 1, long + "b": 2}
			tl.Windows[i].Target = long[:min(len(long), 500)]
		}
		for i := range 60 {
			tl.Verdict.Gates = append(tl.Verdict.Gates, model.GateResult{Expr: long})
			tl.Unobserved = append(tl.Unobserved, model.Unobserved{Target: long, Start: s, End: 2*s + time.Duration(i)*ms, Reason: long})
			addTarget(tl, fmt.Sprint(long[:min(len(long), 500)], i), timeline.New, 10, nil)
		}
		var out strings.Builder
		if err := Markdown(&out, tl, Options{}); err != nil {
			t.Fatal(err)
		}
		if out.Len() > 60_000 {
			t.Errorf("filled with %q: %d bytes", filler, out.Len())
		}
		if !strings.Contains(out.String(), "see timeline.json") {
			t.Errorf("filled with %q: nothing says that something was left out", filler)
		}
	}
}

// A lone timeout at the edge of unobserved time began by when it was over, and ended after it was sent: no order to
// be read.
func TestEndBeforeTheLatestBeginningIsNotKnown(t *testing.T) {
	tl := race()
	w := model.Window{Start: model.Instant{Latest: 5655 * ms}, End: model.Instant{Earliest: 5154 * ms, Latest: 6 * s}, Open: model.Open{Start: true, End: true}}
	if got := endClock(tl, w); got != "not known" {
		t.Errorf("it began %s, ended %s", clock(tl, w.Start, true, false), got)
	}
	w.End.Earliest = 5700 * ms
	if got := endClock(tl, w); !strings.HasPrefix(got, "not before ") {
		t.Errorf("it began %s, ended %s", clock(tl, w.Start, true, false), got)
	}
}

func TestRequestsCutInFlightFailedAtOnceWhenTheyWereCut(t *testing.T) {
	w := model.Window{Start: model.Instant{Latest: 5 * s}, End: model.Instant{Earliest: 4 * s, Latest: 8 * s}, Length: model.Length{Max: 8 * s}, Cut: &model.Instant{Earliest: 5 * s, Latest: 5001 * ms}}
	if length, at := windowSaid(race(), w).Lasted, begun(w); length != "at once" || at != *w.Cut {
		t.Errorf("it took %s from %v", length, at)
	}
}
