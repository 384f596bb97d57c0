package trend

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/trend"
	"lapse/internal/report/document"
)

// How much is shown unless all of it is asked for: so much fits on a screen.
const (
	mostPools    = 2
	mostReleases = 6 // of all pools, the newest
)

func writeTable(w io.Writer, runs Runs, opts Options) error {
	p := document.NewPage(opts.Screen)
	p.Print(documentOf(&runs.Trend, opts.Verbose))
	_, err := p.WriteTo(w)
	return err
}

func documentOf(t *trend.Trend, verbose bool) document.Document {
	d := document.Document{Badge: "TREND", Tone: document.Bold, Headline: headline(t), Extent: extent(t)}
	pools, releases := min(len(t.Pools), mostPools), mostReleases/max(1, min(len(t.Pools), mostPools))
	if verbose {
		pools, releases = len(t.Pools), math.MaxInt
	}
	if hidden := len(t.Pools) - pools; hidden > 0 {
		d.Extent += "; " + quantity.Count(hidden, "group") + " of older ones not shown, -v lists all"
	}
	for i := range pools {
		d.Sections = append(d.Sections, poolSection(t.Pools[i], releases))
	}
	note := document.Section{Title: "note"}
	for _, text := range cautions(t) {
		note.Blocks = append(note.Blocks, document.Note{Text: text, Tone: document.Dim})
	}
	d.Sections = append(d.Sections, note)
	return d
}

// headline says whether there are runs enough to say something.
func headline(t *trend.Trend) string {
	needs := fmt.Sprintf("a median takes %d, a comparison %d of each release", trend.MedianRuns, trend.CompareRuns)
	switch m, c := t.Medians, t.Comparisons; {
	case !measured(t):
		return "nothing was measured: no request of these runs had an outcome that counts"
	case m.Yes+c.Yes == 0:
		return "too few runs to say more than what they saw: " + needs
	case m.Yes == m.Of && c.Yes == c.Of && c.Of == 0:
		return "enough runs for every median"
	case m.Yes == m.Of && c.Yes == c.Of:
		return "enough runs for every median and every comparison"
	case c.Of == 0:
		return "enough runs for " + enough(m, "median") + ": it takes " + fmt.Sprint(trend.MedianRuns)
	default:
		return "enough runs for " + enough(m, "median") + " and " + enough(c, "comparison") + ": " + needs
	}
}

func measured(t *trend.Trend) bool {
	return slices.ContainsFunc(t.Pools, func(p *trend.Pool) bool {
		return slices.ContainsFunc(p.Releases, func(r trend.Release) bool { return r.Requests != nil })
	})
}

func enough(e trend.Enough, what string) string {
	return fmt.Sprintf("%d of %s", e.Yes, quantity.Count(e.Of, what))
}

// extent says how many runs there are, and how many of them are neither a pass nor a failure.
func extent(t *trend.Trend) string {
	var sum trend.Runs
	var first, last time.Time
	for _, p := range t.Pools {
		for _, r := range p.Releases {
			sum.Inconclusive += r.Runs.Inconclusive
			sum.Aborted += r.Runs.Aborted
			sum.Unmeasured += r.Runs.Unmeasured
			sum.Unknown += r.Runs.Unknown
			if first.IsZero() || r.First.Before(first) {
				first = r.First
			}
			if r.Last.After(last) {
				last = r.Last
			}
		}
	}
	text := quantity.Count(t.Runs, "run") + ", " + days(first, last)
	if sum.Unknown > 0 {
		text += "; " + doubts(sum) + ": not taken as passes"
	}
	return text
}

func days(first, last time.Time) string {
	from, to := first.UTC().Format(time.DateOnly), last.UTC().Format(time.DateOnly)
	if from == to {
		return from
	}
	return from + " to " + to
}

// doubts says why runs are unknown.
func doubts(n trend.Runs) string {
	var parts []string
	add := func(count int, word string) {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, word))
		}
	}
	add(n.Inconclusive, "inconclusive")
	add(n.Aborted, "aborted")
	add(n.Unmeasured, "without a request")
	return strings.Join(parts, ", ")
}

// poolSection shows the newest releases of a pool, so many at most.
func poolSection(p *trend.Pool, most int) document.Section {
	title := "service"
	if p.Service == "" {
		title = "url"
	}
	t := document.Table{Item: "release", Columns: []document.Column{
		{Title: "release"}, {Title: "runs that lost requests"},
		{Title: "failed requests", Label: "failed requests"}, {Title: "downtime of a run", Label: "downtime"},
		{Title: "cause", Label: "cause"},
	}}
	skipped := max(0, len(p.Releases)-most)
	for i := skipped; i < len(p.Releases); i++ {
		t.Rows = append(t.Rows, releaseRow(p, i))
	}
	if skipped > 0 {
		t.More = quantity.Count(skipped, "older release") + "; -v lists all"
	}
	return document.Section{Title: title, Remark: remark(p), Blocks: []document.Block{t}}
}

// remark says what the runs of a pool have in common.
func remark(p *trend.Pool) string {
	parts := []string{cmp.Or(p.Service, strings.Join(p.URLs, " "), "not on record")}
	if p.Disruption != "" {
		parts = append(parts, p.Disruption)
	}
	if p.Kubernetes != "" {
		parts = append(parts, "Kubernetes "+p.Kubernetes+", proxy mode "+cmp.Or(p.ProxyMode, "not known"))
	}
	return strings.Join(append(parts, cmp.Or(p.Load, "no requests")), " · ")
}

func releaseRow(p *trend.Pool, i int) document.Row {
	said, runs := releaseOf(p, i), &p.Releases[i].Runs
	tone := document.Normal
	switch {
	case runs.Lossy > 0:
		tone = document.Red
	case runs.Unknown > 0:
		tone = document.Yellow
	}
	row := document.Row{Cells: []document.Cell{
		{Text: said.Name, Verbatim: true}, {Text: said.Lossy, Tone: tone}, {Text: said.Failed}, {Text: said.Downtime},
		{Text: said.Cause},
	}}
	if said.Change != "" {
		row.Notes = []document.Note{{Label: "against " + said.Before, Text: said.Change}}
	}
	return row
}

// causeText names the cause of most runs.
func causeText(causes []trend.Cause) string {
	switch n := len(causes); n {
	case 0:
		return ""
	case 1:
		return causes[0].Rule
	default:
		return causes[0].Rule + " and " + quantity.Count(n-1, "other")
	}
}

const notMeasured = "not measured"

func lossyText(r *trend.Release) string {
	if r.Lossy == nil {
		return notMeasured
	}
	text := fmt.Sprint(r.Runs.Lossy)
	if r.Runs.Unknown > 0 {
		text += fmt.Sprintf(" to %d", r.Runs.Lossy+r.Runs.Unknown)
	}
	return fmt.Sprintf("%s of %d (%s)", text, r.Runs.All, quantity.Percents(r.Lossy.Min, r.Lossy.Max))
}

func requestsText(r *trend.Requests) string {
	if r == nil {
		return notMeasured
	}
	return fmt.Sprintf("%d/%d (%s)", r.Failed, r.Sent, quantity.Percents(r.Share.Min, r.Share.Max))
}

func downtimeText(d *trend.Downtime) string {
	switch {
	case d == nil:
		return notMeasured
	case d.Median == nil:
		return lengthText(d.Seen)
	}
	return "median " + lengthText(*d.Median) + " (" + lengthText(*d.Interval) + ")"
}

func lengthText(b trend.Bounds) string {
	if b.Max == nil {
		return quantity.Length(model.Length{Min: b.Min}, true)
	}
	return quantity.Length(model.Length{Min: b.Min, Max: *b.Max}, false)
}

func changeText(c *trend.Change, less string) string {
	word := map[trend.Direction]string{
		trend.Less: less, trend.More: "more", trend.Unclear: "no difference shown",
	}[c.Direction]
	return fmt.Sprintf("%s (p = %.2g)", word, c.P)
}

// cautions says what the figures mean.
func cautions(t *trend.Trend) []string {
	list := []string{"in brackets: what holds with 95 % probability, of all such runs; behind failed requests of " +
		"these runs only, because the requests of a disruption fail together"}
	if t.Again > 0 {
		list = append(list, quantity.Count(t.Again, "further run")+" of the same disruptions not counted, as of a "+
			"second guard: of each disruption the run counts that lost most")
	}
	if len(t.Judges) > 1 {
		list = append(list, "judged by different versions of Lapse: "+strings.Join(t.Judges, ", "))
	}
	return list
}
