package report

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"lapse/correlate/model"
)

// What a comment shows at most. With text of any length in every place, maxMarkdown still holds.
const (
	maxMarkdown = 58_000 // bytes; GitHub refuses a comment of more than 65536 characters
	maxRows     = 20     // of a table
	maxText     = 300    // columns of a text from outside
)

// Markdown renders the summary for a comment on a pull request or for the summary of a pipeline's
// step: the verdict first, and never more than 60 KB, whatever the run.
//
// Text from outside (names, events, the command, errors) stands there as it is and does nothing: see [prose].
func Markdown(w io.Writer, tl *model.Timeline, opts Options) error {
	m := &markdown{names: documentNames(tl)}
	for _, section := range []func(*markdown, *model.Timeline){
		markdownVerdict, markdownGates, markdownWindows, markdownCauses, markdownUnobserved, markdownLatency, markdownHammer, markdownValidity,
	} {
		section(m, tl)
	}
	if opts.RunDir != "" {
		m.paragraph("Recording and `timeline.json`: " + code(opts.RunDir))
	}
	_, err := w.Write(m.Bytes())
	return err
}

// documentNames gives each target a short name, as [targetNames] does, for documents. They have no width, but a table cell
// has; 160 columns give a name up to 40.
func documentNames(tl *model.Timeline) map[string]string {
	return targetNames(newPage(Options{Unicode: true, Width: 160}), tl)
}

// A markdown document grows line by line; every line is whole in itself. What would go beyond maxMarkdown is left out, and
// the document says so.
type markdown struct {
	bytes.Buffer
	names map[string]string // of targets, as short as they may be
	full  bool
}

func (m *markdown) line(text string) {
	if m.full {
		return
	}
	if m.full = m.Len()+len(text) > maxMarkdown; m.full {
		text = "\n_The rest does not fit here: see timeline.json._"
	}
	m.WriteString(text + "\n")
}

func (m *markdown) paragraph(text string) { m.line("\n" + text) }

func (m *markdown) heading(title string) { m.line("\n### " + title) }

// table writes rows of cells, which are Markdown, the first maxRows of them.
func (m *markdown) table(columns []string, rows [][]string) {
	rule := strings.Repeat("|---", len(columns)) + "|"
	m.line("\n| " + strings.Join(columns, " | ") + " |\n" + rule)
	for _, row := range rows[:min(len(rows), maxRows)] {
		m.line("| " + strings.Join(row, " | ") + " |")
	}
	if more := len(rows) - maxRows; more > 0 {
		m.paragraph(fmt.Sprintf("and %d more: see timeline.json", more))
	}
}

// target names a target in a table.
func (m *markdown) target(name string) string {
	if short, ok := m.names[name]; ok {
		name = short
	}
	return cell(name)
}

// code is text as a code span, in which no reader looks for markup, mentions, references or links.
// Its fence is longer than any in the text.
// https://spec.commonmark.org/0.31.2/#code-spans
func code(text string) string {
	text = cut(strings.TrimSpace(clean(text)), maxText, "…")
	if text == "" {
		return "(empty)"
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// cell is text as a code span in a table, where a bar ends the cell. Not all readers agree on how to
// write one, so it becomes a broken bar.
func cell(text string) string { return code(strings.ReplaceAll(text, "|", "¦")) }

// prose is a sentence with text from outside in it. Words of letters and digits stay as they are; any other word, which
// could be markup, a mention (@name), a reference (#1), a link or an emoji, becomes a code span.
func prose(text string) string {
	var words []string
	for word := range strings.FieldsSeq(cut(clean(text), maxText, "…")) {
		if !harmless(word) {
			word = code(word)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// harmless reports whether a word within a line means nothing to a reader of Markdown.
func harmless(word string) bool {
	word = strings.TrimRight(strings.TrimLeft(word, "("), ".,;:)%…")
	lower := strings.ToLower(word)
	switch {
	case word == "<", timeOfDay.MatchString(word): // no tag begins with a blank
		return true
	case strings.Contains(lower, "www."), strings.Contains(lower, "gh-"):
		return false // a link, and a reference to an issue
	}
	inner := false // the character before was a letter or a digit
	for i, r := range word {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r):
			inner = true
			continue
		case strings.ContainsRune("-.,;%/'=+()±≥≤≈×÷−·…→", r):
		case r == '_' && inner && i+1 < len(word) && isWord(word[i+1]):
			continue // within a word it emphasizes nothing
		default:
			return false
		}
		inner = false
	}
	return true
}

var timeOfDay = regexp.MustCompile(`^\d\d:\d\d:\d\d(\.\d+)?$`)

func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func markdownVerdict(m *markdown, tl *model.Timeline) {
	badge, _ := badgeOf(tl)
	m.line("## " + badge + ": " + prose(headline(tl)))
	for _, caveat := range caveats(tl) {
		m.paragraph(prose(caveat))
	}
	m.paragraph("Lapse: " + prose(measured(tl)))
	m.paragraph("Result: " + prose(trust(tl)))
}

func markdownGates(m *markdown, tl *model.Timeline) {
	m.heading("Gates")
	if len(tl.Verdict.Gates) == 0 {
		m.paragraph("No gate was set: this run could not fail.")
		return
	}
	var rows [][]string
	for _, g := range tl.Verdict.Gates {
		mark, _, remark := gateMark(tl, g)
		rows = append(rows, []string{mark + " " + remark, cell(g.Expr), gateValue(g)})
	}
	m.table([]string{"outcome", "the run fails if", "measured"}, rows)
}

func markdownWindows(m *markdown, tl *model.Timeline) {
	if len(tl.Windows) == 0 {
		return
	}
	m.heading("Windows")
	shown := worst(tl.Windows, maxWindows)
	var rows [][]string
	for _, w := range shown {
		rows = append(rows, []string{
			fmt.Sprint(w.ID), clock(tl, begun(w), w.Open.Start, false), endClock(tl, w),
			windowLength(w), string(w.Kind), requestsText(w),
			m.target(w.Target), cell(errorText(w)),
		})
	}
	m.table([]string{"#", "began (UTC)", "ended (UTC)", "length", "kind", "requests", "seen by", "error"}, rows)
	if more := len(tl.Windows) - len(shown); more > 0 {
		m.paragraph(fmt.Sprintf("and %s with less downtime: see timeline.json", plural(more, "more window")))
	}
	markdownNotes(m, tl, worst(shown, maxNoted))
}

// markdownNotes says of windows what their rows do not.
func markdownNotes(m *markdown, tl *model.Timeline, windows []model.Window) {
	m.line("")
	for _, w := range windows {
		for _, note := range windowNotes(tl, w) {
			m.line(fmt.Sprintf("- Window %d: %s", w.ID, prose(note)))
		}
	}
}

// markdownCauses says why windows opened, each cause once, and what to change.
func markdownCauses(m *markdown, tl *model.Timeline) {
	told, others := findings(tl)
	if len(told) == 0 {
		return
	}
	m.heading("Causes")
	m.line("")
	for _, f := range told {
		m.line(fmt.Sprintf("- **%s:** %s (%s, confidence %s)", capital(windowList(f.windows)), prose(f.Text), code(f.Rule), prose(string(f.Confidence))))
	}
	for _, f := range others {
		m.line(fmt.Sprintf("- **%s:** %s", capital(windowList(f.windows)), prose(f.restText())))
	}
	for i, f := range fixes(tl) {
		if i == 0 {
			m.heading("What to change")
			m.line("")
		}
		m.line(fmt.Sprintf("- **%s:** %s", capital(windowList(f.windows)), prose(f.text)))
	}
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// clock renders when something happened with both its bounds, rounded outward to milliseconds. Where
// one was not observed, it has only the other.
func clock(tl *model.Timeline, at model.Instant, openStart, openEnd bool) string {
	const layout = "15:04:05.000"
	earliest := tl.T0.Add(at.Earliest).UTC().Truncate(time.Millisecond)
	latest := tl.T0.Add(at.Latest + time.Millisecond - 1).UTC().Truncate(time.Millisecond)
	switch {
	case openStart:
		return "by " + latest.Format(layout)
	case openEnd:
		return "not before " + earliest.Format(layout)
	case latest.Equal(earliest):
		return earliest.Format(layout)
	}
	return earliest.Format(layout) + " to " + latest.Format(layout)
}

// endClock renders when a window ended. That it did not before an instant by which it may not have begun says nothing.
func endClock(tl *model.Timeline, w model.Window) string {
	if w.Open.End && w.End.Earliest < w.Start.Latest {
		return "not known"
	}
	return clock(tl, w.End, false, w.Open.End)
}

func markdownUnobserved(m *markdown, tl *model.Timeline) {
	gaps := sharedGaps(tl.Unobserved, m.names)
	if len(gaps) == 0 {
		return
	}
	m.heading("Unobserved: neither up nor down")
	slices.SortStableFunc(gaps, func(a, b gap) int { return int(b.End - b.Start - (a.End - a.Start)) })
	shown, rest := gaps[:min(len(gaps), maxGaps)], gaps[min(len(gaps), maxGaps):]
	slices.SortStableFunc(shown, func(a, b gap) int { return int(a.Start - b.Start) })
	var rows [][]string
	for _, g := range shown {
		rows = append(rows, []string{
			wallClock(tl, g.Start, "15:04:05.000"), FormatDuration(g.End - g.Start), cell(strings.Join(g.targets, ", ")), cell(g.Reason),
		})
	}
	m.table([]string{"from (UTC)", "for", "target", "reason"}, rows)
	if len(rest) > 0 {
		total := sum(rest, func(g gap) time.Duration { return g.End - g.Start })
		m.paragraph(fmt.Sprintf("and %s, %s in all", plural(len(rest), "shorter gap"), FormatDuration(total)))
	}
}

func markdownLatency(m *markdown, tl *model.Timeline) {
	var rows [][]string
	for _, t := range judged(tl) {
		row := []string{m.target(t.Name)}
		if l := t.Latency; l != nil {
			for _, d := range []time.Duration{l.P50, l.P90, l.P99, l.P999, l.Max} {
				row = append(row, FormatDuration(d))
			}
		} else {
			row = append(row, "no answer", "", "", "", "")
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return
	}
	m.heading("Latency of answered requests, from when they were due")
	m.table([]string{"target", "p50", "p90", "p99", "p99.9", "max"}, rows)
}

func markdownHammer(m *markdown, tl *model.Timeline) {
	if command, text := hammerParts(tl); command != "" {
		m.heading("Background load")
		m.paragraph(code(command) + " · " + prose(text))
	}
}

func markdownValidity(m *markdown, tl *model.Timeline) {
	m.heading("Measurement")
	m.paragraph(prose(strings.Join(validityParts(tl, m.names), " · ")))
}
