package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"lapse/correlate/compare"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// A Comparison is two judged runs and what changed from A to B.
type Comparison struct {
	A, B model.Timeline
	Name struct{ A, B string } // what the user calls them
	Diff compare.Diff
}

// Compare compares two judged runs.
func Compare(a, b *model.Timeline, nameA, nameB string) *Comparison {
	c := &Comparison{A: *a, B: *b, Diff: compare.Compare(a, b)}
	c.Name.A, c.Name.B = nameA, nameB
	return c
}

// What the figures mean, said below every comparison.
const (
	diffBounds = "bounds hold with 99 % probability (shares: Clopper-Pearson; quantiles: order statistics and the " +
		"width of a slot; lengths: brackets, unobserved time and what fits between two requests); only bounds that " +
		"do not overlap are a change"
	diffCaution = "failures and slow answers of one event are not independent, " +
		"and one run of each cannot tell how much such events differ: repeat both before you trust a change"
)

// A diffGroup are metrics that are summed up in a word.
type diffGroup struct{ name, metric, less, more string }

var diffGroups = []diffGroup{
	{"failures", compare.DiffFailed, "fewer", "more"},
	{"downtime", compare.DiffDowntime, "less", "more"},
	{"longest window", compare.DiffLongest, "shorter", "longer"},
	{"latency", compare.DiffLatency, "lower", "higher"},
	{"held connections cut", compare.DiffCut, "fewer", "more"},
	{"cut without a warning", compare.DiffUnwarned, "fewer", "more"},
	{"longest until back", compare.DiffBack, "shorter", "longer"},
}

func groupOf(metric string) diffGroup {
	i := slices.IndexFunc(diffGroups, func(g diffGroup) bool { return strings.HasPrefix(metric, g.metric) })
	return diffGroups[i]
}

// word says where a group of changes went; "" if it is about held connections, and the runs held none.
func (g diffGroup) word(changes []compare.Change) string {
	var less, more, known bool
	shown := !strings.HasPrefix(g.metric, "held.")
	for _, c := range changes {
		if strings.HasPrefix(c.Metric, g.metric) {
			shown = true
			less, more = less || c.Direction == compare.Less, more || c.Direction == compare.More
			known = known || c.Known()
		}
	}
	switch {
	case !shown:
		return ""
	case !known:
		return "not measured in both"
	case less && more:
		return g.less + " in one place, " + g.more + " in another"
	case less:
		return g.less
	case more:
		return g.more
	}
	return "no significant change"
}

// diffHeadline sums a comparison up.
func diffHeadline(d compare.Diff) string {
	var parts []string
	if n := len(d.NotComparable); n > 0 {
		parts = append(parts, fmt.Sprintf("not comparable, for %s below", quantity.Count(n, "reason")))
	}
	for _, g := range diffGroups {
		if word := g.word(d.Changes); word != "" {
			parts = append(parts, g.name+": "+word)
		}
	}
	return strings.Join(parts, " · ")
}

// changeWord is a single change in a word.
func changeWord(c compare.Change) string {
	g := groupOf(c.Metric)
	switch {
	case !c.Known():
		return "not measured in both"
	case c.Direction == compare.Less:
		return g.less
	case c.Direction == compare.More:
		return g.more
	}
	return "no change shown"
}

// figure names what is compared.
func figure(metric string) string {
	if quantile, ok := strings.CutPrefix(metric, compare.DiffLatency); ok {
		return quantile
	}
	return groupOf(metric).name
}

func estimate(metric string, e *compare.Estimate) string {
	switch {
	case e == nil:
		return "not measured"
	case metric == compare.DiffFailed, metric == compare.DiffCut, metric == compare.DiffUnwarned:
		share := fmt.Sprintf("%d/%d  %s", e.Failed, e.Sent, quantity.Percent(float64(e.Failed)/float64(e.Sent)))
		if e.Min == *e.Max {
			return share
		}
		return fmt.Sprintf("%s (%s)", share, quantity.Percents(e.Min, *e.Max))
	}
	return quantity.Length(e.Length())
}

func runLine(name string, tl *model.Timeline) string {
	return name + " " + tl.Said.Word + ": " + tl.Said.Headline + " · " + measured(tl)
}

// diffTable renders a comparison for a terminal.
func diffTable(w io.Writer, c *Comparison, opts Options) error {
	p := document.NewPage(opts.page())
	p.Print(diffDocument(c, nameWidth(p)))
	_, err := p.WriteTo(w)
	return err
}

// diffMarkdown renders a comparison for a comment on a pull request. Like [Markdown], it stays
// below 60 KB, and text from outside is only text.
func diffMarkdown(w io.Writer, c *Comparison, _ Options) error {
	_, err := w.Write(diffDocument(c, documentNames).Markdown())
	return err
}

func diffDocument(c *Comparison, nameWidth int) document.Document {
	d := document.Document{Badge: "FROM A TO B", Tone: document.Bold, Headline: diffHeadline(c.Diff)}
	note := document.Section{Title: "note", Blocks: []document.Block{
		document.Note{Text: diffBounds, Tone: document.Dim}, document.Note{Text: diffCaution, Tone: document.Dim},
	}}
	sections := []document.Section{diffRuns(c), notComparable(c), diffChanges(c, nameWidth), diffCauses(c), note}
	for _, s := range sections {
		if len(s.Blocks) > 0 {
			d.Sections = append(d.Sections, s)
		}
	}
	return d
}

func diffRuns(c *Comparison) document.Section {
	return document.Section{Title: "runs", Remark: "what each found", Tight: true, Blocks: []document.Block{
		document.Note{Label: "A", Text: runLine(c.Name.A, &c.A), Tone: document.Dim},
		document.Note{Label: "B", Text: runLine(c.Name.B, &c.B), Tone: document.Dim},
	}}
}

func notComparable(c *Comparison) document.Section {
	s := document.Section{Title: "not comparable", Remark: "what differs may come from what is unlike here"}
	for _, why := range c.Diff.NotComparable {
		s.Blocks = append(s.Blocks, document.Note{Text: why, Tone: document.Yellow})
	}
	return s
}

func diffChanges(c *Comparison, nameWidth int) document.Section {
	if len(c.Diff.Changes) == 0 {
		return document.Section{}
	}
	names := targetNames(&c.A, nameWidth)
	t := document.Table{Item: "change", Columns: []document.Column{
		{Title: "target"}, {Title: "what"}, {Title: "A"}, {Title: "B"}, {Title: "B has", Label: "B has"},
	}}
	for _, change := range c.Diff.Changes {
		tone := map[compare.Direction]document.Style{
			compare.Less: document.Green, compare.More: document.RedBold,
		}[change.Direction]
		t.Rows = append(t.Rows, document.Row{Cells: []document.Cell{
			{Text: cmp.Or(names[change.Target], change.Target), Verbatim: true}, {Text: figure(change.Metric)},
			{Text: estimate(change.Metric, change.A)}, {Text: estimate(change.Metric, change.B)},
			{Text: changeWord(change), Tone: tone},
		}})
	}
	return document.Section{
		Title: "changes", Remark: "of every target that both runs judge", Blocks: []document.Block{t},
	}
}

func diffCauses(c *Comparison) document.Section {
	s := document.Section{Title: "causes", Remark: "of windows, by rule"}
	for _, cause := range c.Diff.Causes {
		s.Blocks = append(s.Blocks, document.Note{
			Label: cause.Rule,
			Text: fmt.Sprintf("%s in A, %s in B",
				quantity.Count(cause.A.Windows, "window"), quantity.Count(cause.B.Windows, "window")),
			Tone:    document.Bold,
			Details: []document.Note{{Label: "A", Text: longestOf(cause.A)}, {Label: "B", Text: longestOf(cause.B)}},
		})
	}
	return s
}

// longestOf describes a rule's longest window in a run.
func longestOf(s compare.CauseSide) string {
	if s.Windows == 0 {
		return "none"
	}
	return strings.TrimPrefix(fmt.Sprintf("%s (the longest: %s)", s.Text, quantity.Length(s.Length, s.Open)), " ")
}

// diffJSON writes a comparison for programs. Lengths are nanoseconds, shares ratios from 0 to 1.
func diffJSON(w io.Writer, c *Comparison, _ Options) error {
	type run struct {
		Name    string        `json:"name"`
		ID      string        `json:"id"`
		Tool    model.Tool    `json:"tool"`
		Verdict model.Verdict `json:"verdict"`
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		A run `json:"a"`
		B run `json:"b"`
		compare.Diff
	}{run{c.Name.A, c.A.Run.ID, c.A.Tool, c.A.Verdict}, run{c.Name.B, c.B.Run.ID, c.B.Tool, c.B.Verdict}, c.Diff})
}
