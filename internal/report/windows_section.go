package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
	"lapse/internal/report/document"
)

// What a summary shows of windows at most; timeline.json has the rest.
const (
	maxWindows = 20 // the ones with most downtime
	maxNoted   = 5  // of these, the ones of which more is said than fits into a row
)

// windowsSection has each window: the detail of incidents.
func windowsSection(v *view) document.Section {
	if len(v.Windows) == 0 {
		return document.Section{}
	}
	shown := worst(v.Windows, maxWindows)
	s := document.Section{Title: "windows", Remark: "times are UTC"}
	if slices.ContainsFunc(shown, func(w model.Window) bool { return w.Basis == model.Statistical }) {
		s.Remark += "; bounds hold with 99 % probability"
	}
	t := document.Table{Item: "window", Columns: []document.Column{
		{Title: "#", Right: true}, {Title: "start"}, {Title: "length"},
		{Title: "downtime", Label: "note", Lead: "downtime, weighed by the share that failed: "},
		{Title: "kind"}, {Title: "requests"}, {Title: "seen by"}, {Title: "error", Label: "error"},
		{Title: "cause", Label: "cause"},
	}}
	noted := worst(shown, maxNoted)
	for _, w := range shown {
		row := v.windowRow(w)
		if slices.ContainsFunc(noted, func(n model.Window) bool { return n.ID == w.ID }) {
			for _, text := range windowNotes(v.Timeline, w) {
				row.Notes = append(row.Notes, document.Note{Label: "note", Text: text, Tone: document.Dim})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	if more := len(v.Windows) - len(shown); more > 0 {
		t.More = fmt.Sprintf("and %s with less downtime: see timeline.json", quantity.Count(more, "more window"))
	}
	s.Blocks = []document.Block{t}
	return s
}

func (v *view) windowRow(w model.Window) document.Row {
	tone := map[model.WindowKind]document.Style{
		model.Outage: document.RedBold, model.Partial: document.Red, model.Slow: document.Yellow,
	}[w.Kind]
	return document.Row{Cells: []document.Cell{
		{Text: fmt.Sprint(w.ID)},
		{Text: startText(v.Timeline, begun(w)), Exact: clock(v.Timeline, begun(w), w.Open.Start, false)},
		{Text: w.Said.Lasted, Exact: w.Said.Lasted + ", ended " + endClock(v.Timeline, w), Tone: document.Bold},
		{Text: w.Said.Downtime},
		{Text: string(w.Kind), Tone: tone},
		{Text: wording.Requests(&w) + "  " + quantity.Percent(w.Share)},
		{Text: v.name(w.Target), Verbatim: true},
		{Text: wording.Errors(&w), Verbatim: true},
		{Text: likeliest(w), Verbatim: true},
	}}
}

// likeliest returns the rule of a window's most likely cause.
func likeliest(w model.Window) string {
	if len(w.Causes) == 0 {
		return ""
	}
	return w.Causes[0].Rule
}

// worst picks the n windows with most downtime, and keeps their order.
func worst(windows []model.Window, n int) []model.Window {
	if len(windows) <= n {
		return windows
	}
	byDowntime := slices.SortedStableFunc(slices.Values(windows), func(a, b model.Window) int {
		return compareDowntime(b, a)
	})[:n]
	slices.SortStableFunc(byDowntime, func(a, b model.Window) int { return cmp.Compare(a.ID, b.ID) })
	return byDowntime
}

func compareDowntime(a, b model.Window) int {
	return cmp.Or(cmp.Compare(a.Downtime.Max, b.Downtime.Max), cmp.Compare(a.Length.Max, b.Length.Max))
}

func wallClock(tl *model.Timeline, at time.Duration, layout string) string {
	return tl.T0.Add(at).UTC().Format(layout)
}

// begun is when a window began: of requests cut in flight, when they were cut.
func begun(w model.Window) model.Instant {
	if w.Cut != nil {
		return *w.Cut
	}
	return w.Start
}

// widestPoint is the widest bracket of an instant that is printed as the point in its middle.
const widestPoint = time.Second

// startText is when something began: the middle of its bracket, or the bracket's end if that is too wide for a point.
func startText(tl *model.Timeline, start model.Instant) string {
	if start.Latest-start.Earliest > widestPoint {
		return "by " + wallClock(tl, start.Latest, "15:04:05.000")
	}
	return wallClock(tl, middle(start), "15:04:05.000")
}

func middle(i model.Instant) time.Duration { return i.Earliest + (i.Latest-i.Earliest)/2 }

// windowNotes says what its row does not: what its failures said themselves, where its end was not seen, and how sure
// its bounds are.
func windowNotes(tl *model.Timeline, w model.Window) []string {
	var notes []string
	for _, e := range w.Errors {
		notes = append(notes, e.Class+": "+e.Text+sinceWhen(tl, w, e))
	}
	if w.Live {
		notes = append(notes, wording.NotFinal)
	}
	if w.Said.Edges != "" {
		notes = append(notes, w.Said.Edges)
	}
	if w.Blackout != nil && w.Kind == model.Partial { // an outage is one from end to end
		notes = append(notes, "longest stretch without an answer: "+quantity.Length(*w.Blackout, false))
	}
	return notes
}

// sinceWhen is when an error was first seen, if that was before the window.
func sinceWhen(tl *model.Timeline, w model.Window, e model.ErrorText) string {
	if e.First.Latest >= w.Start.Earliest {
		return ""
	}
	return " (first seen at " + wallClock(tl, e.First.Latest, "15:04:05.000") + ")"
}

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
