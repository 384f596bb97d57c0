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

// groupWord says how the figures of a group changed; "" if it is about held connections, and the runs held none.
func groupWord(g compare.Group, d compare.Diff) string {
	changes := g.Of(d)
	is := func(direction compare.Direction) bool {
		return slices.ContainsFunc(changes, func(c compare.Change) bool { return c.Direction == direction })
	}
	less, more := is(compare.Less), is(compare.More)
	switch {
	case len(changes) == 0 && strings.HasPrefix(g.Metric, "held."):
		return ""
	case !slices.ContainsFunc(changes, compare.Change.Known):
		return "not measured in both"
	case less && more:
		return g.Less + " in one place, " + g.More + " in another"
	case less:
		return g.Less
	case more:
		return g.More
	}
	return "no significant change"
}

// diffHeadline sums a comparison up.
func diffHeadline(d compare.Diff) string {
	var parts []string
	if n := len(d.NotComparable); n > 0 {
		parts = append(parts, fmt.Sprintf("not comparable, for %s below", quantity.Count(n, "reason")))
	}
	for _, g := range compare.Groups {
		word := groupWord(g, d)
		if g.Metric == compare.DiffFailed && d.Total.Known() {
			word += fmt.Sprintf(" (%d of %d in A, %d of %d in B)",
				d.Total.A.Failed, d.Total.A.Sent, d.Total.B.Failed, d.Total.B.Sent)
		}
		if word != "" {
			parts = append(parts, g.Name+": "+word)
		}
	}
	return strings.Join(parts, " · ")
}

// changeWord is a single change in a word.
func changeWord(c compare.Change) string {
	g := compare.GroupOf(c.Metric)
	switch {
	case !c.Known():
		return "not measured in both"
	case c.Direction == compare.Less:
		return g.Less
	case c.Direction == compare.More:
		return g.More
	}
	return "no change shown"
}

func estimate(metric string, e *compare.Estimate) string {
	switch {
	case e == nil:
		return "not measured"
	case metric == compare.DiffFailed, metric == compare.DiffCut, metric == compare.DiffUnwarned:
		return fmt.Sprintf("%d/%d (%s)", e.Failed, e.Sent, quantity.Percents(e.Min, *e.Max))
	}
	return quantity.Length(e.Length())
}

func runLine(name string, tl *model.Timeline) string {
	return name + " " + tl.Said.Word + ": " + tl.Said.Headline + " · " + measured(tl)
}

// diffTable renders a comparison for a terminal.
func diffTable(w io.Writer, c *Comparison, opts Options) error {
	p := document.NewPage(opts.page())
	p.Print(diffDocument(c, nameWidth(p), opts.Verbose))
	_, err := p.WriteTo(w)
	return err
}

// diffMarkdown renders a comparison for a comment on a pull request. Like [Markdown], it stays
// below 60 KB, and text from outside is only text.
func diffMarkdown(w io.Writer, c *Comparison, opts Options) error {
	_, err := w.Write(diffDocument(c, documentNames, opts.Verbose).Markdown())
	return err
}

func diffDocument(c *Comparison, nameWidth int, verbose bool) document.Document {
	d := document.Document{
		Badge: "FROM A TO B", Tone: document.Bold, Headline: diffHeadline(c.Diff), Whole: "lapse diff A B -o json",
	}
	note := document.Section{Title: "note"}
	for _, text := range append(slices.Clone(c.Diff.Notes), diffBounds, diffCaution) {
		note.Blocks = append(note.Blocks, document.Note{Text: text, Tone: document.Dim})
	}
	sections := []document.Section{
		diffRuns(c), notComparable(c), diffChanges(c, nameWidth, verbose), diffCauses(c), note,
	}
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

// diffChanges returns the total, the figures that changed, and how many did not: with verbose, these as well.
func diffChanges(c *Comparison, nameWidth int, verbose bool) document.Section {
	if len(c.Diff.Changes) == 0 {
		return document.Section{}
	}
	names := targetNames(&c.A, nameWidth)
	row := func(change compare.Change) document.Row {
		return changeRow(change, cmp.Or(names[change.Target], change.Of()))
	}
	rows, others := []document.Row{row(c.Diff.Total)}, []document.Row{}
	unknown := 0
	for _, change := range c.Diff.Changes {
		if change.Direction != compare.Unclear {
			rows = append(rows, row(change))
			continue
		}
		others = append(others, row(change))
		if !change.Known() {
			unknown++
		}
	}
	t := document.Table{Item: "change", Rows: rows, Columns: []document.Column{
		{Title: "target"}, {Title: "what"}, {Title: "A"}, {Title: "B"}, {Title: "B has", Label: "B has"},
	}}
	switch n := len(others); {
	case verbose:
		t.Rows = append(t.Rows, others...)
	case n > unknown:
		t.More = fmt.Sprintf("no change shown: %s; -v lists all", quantity.Count(n-unknown, "other figure"))
	}
	if unknown > 0 && !verbose {
		t.More = strings.TrimPrefix(t.More+fmt.Sprintf("; not measured in both: %d", unknown), "; ")
	}
	return document.Section{
		Title: "changes", Remark: "of every target that both runs judge", Blocks: []document.Block{t},
	}
}

func changeRow(change compare.Change, name string) document.Row {
	tone := map[compare.Direction]document.Style{
		compare.Less: document.Green, compare.More: document.RedBold,
	}[change.Direction]
	return document.Row{Cells: []document.Cell{
		{Text: name, Verbatim: true}, {Text: change.Figure()},
		{Text: estimate(change.Metric, change.A)}, {Text: estimate(change.Metric, change.B)},
		{Text: changeWord(change), Tone: tone},
	}}
}

func diffCauses(c *Comparison) document.Section {
	s := document.Section{Title: "causes", Remark: "how often, by rule"}
	for _, cause := range c.Diff.Causes {
		s.Blocks = append(s.Blocks, document.Note{
			Label: cause.Rule,
			Text: fmt.Sprintf("%s in A, %s in B", quantity.Count(cause.A.Windows, "time"),
				quantity.Count(cause.B.Windows, "time")),
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
