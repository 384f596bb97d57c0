package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/report/document"
)

// What a summary shows of windows at most; timeline.json has the rest.
const (
	maxWindows = 20 // the ones with most downtime
	maxNoted   = 5  // of these, the ones of which more is said than fits into a row
)

// windowsSection has each window: the detail of incidents.
func windowsSection(v *view) document.Section {
	if len(v.Windows) == 0 || !v.detailed() {
		return document.Section{}
	}
	shown := worst(v.Windows, maxWindows)
	s := document.Section{Title: "windows", Remark: "times are UTC"}
	if slices.ContainsFunc(shown, func(w model.Window) bool { return w.Basis == model.Statistical }) {
		s.Remark += "; bounds hold with 99 % probability"
	}
	t := document.Table{Item: "window", Columns: []document.Column{
		{Title: "#", Right: true}, {Title: "start"}, {Title: "length"}, {Title: "downtime", Label: "note", Lead: "downtime, weighed by the share that failed: "},
		{Title: "kind"}, {Title: "requests"}, {Title: "seen by"}, {Title: "error", Label: "error"},
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

// detailed reports whether what incidents rest on is shown: on demand, or where there are none.
func (v *view) detailed() bool { return v.Verbose || len(v.Incidents) == 0 }

func (v *view) windowRow(w model.Window) document.Row {
	tone := map[model.WindowKind]document.Style{model.Outage: document.RedBold, model.Partial: document.Red, model.Slow: document.Yellow}[w.Kind]
	return document.Row{Cells: []document.Cell{
		{Text: fmt.Sprint(w.ID)},
		{Text: startText(v.Timeline, begun(w)), Exact: clock(v.Timeline, begun(w), w.Open.Start, false)},
		{Text: windowLength(w), Exact: windowLength(w) + ", ended " + endClock(v.Timeline, w), Tone: document.Bold},
		{Text: downtimeText(w)},
		{Text: string(w.Kind), Tone: tone},
		{Text: requestsText(w) + "  " + quantity.Percent(w.Share)},
		{Text: v.name(w.Target), Verbatim: true},
		{Text: errorText(w), Verbatim: true},
	}}
}

// worst picks the n windows with most downtime, and keeps their order.
func worst(windows []model.Window, n int) []model.Window {
	if len(windows) <= n {
		return windows
	}
	byDowntime := slices.SortedStableFunc(slices.Values(windows), func(a, b model.Window) int { return compareDowntime(b, a) })[:n]
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

// windowLength is how long a window took. One whose end was not observed is still no longer than what is known to be
// well beyond. Requests that were cut in flight all failed at one instant, however long they had been under way.
func windowLength(w model.Window) string {
	if w.Cut != nil && w.Kind != model.CutKind {
		return "at once"
	}
	if isOpen(w) && w.Most != nil {
		return quantity.Length(model.Length{Min: w.Length.Min, Max: w.Most.Length}, false)
	}
	return quantity.Length(w.Length, isOpen(w))
}

// requestsText says how many of a window's requests it is about: "64/128 failed", "9/260 slow".
func requestsText(w model.Window) string {
	if isSlow(w) {
		return fmt.Sprintf("%d/%d slow", w.Slow, w.Sent)
	}
	return fmt.Sprintf("%d/%d failed", w.Failed, w.Sent)
}

func errorText(w model.Window) string {
	if w.Kind == model.Slow {
		return "answered late"
	}
	return classList(w.Classes)
}

// classList names the classes of a window's requests, the most frequent first. How many there are of a single one is
// in the next column.
func classList(classes map[string]int) string {
	if len(classes) == 1 {
		for name := range classes {
			return name
		}
	}
	return quantity.ClassCounts(classes)
}

// windowNotes says what its row does not: what its failures said themselves, where its end was not seen, and how sure
// its bounds are.
func windowNotes(tl *model.Timeline, w model.Window) []string {
	var notes []string
	for _, e := range w.Errors {
		notes = append(notes, e.Class+": "+e.Text+sinceWhen(tl, w, e))
	}
	if w.Live {
		notes = append(notes, "not final: later requests may change it")
	}
	if open := openText(tl, w); open != "" {
		notes = append(notes, open)
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

// openText says of which end of a window nothing is known, and why.
func openText(tl *model.Timeline, w model.Window) string {
	failing := "failing"
	if isSlow(w) {
		failing = "slow"
	}
	var parts []string
	i := slices.IndexFunc(tl.Targets, func(t model.Target) bool { return t.Name == w.Target })
	if w.Open.Start {
		text := "its start was not observed" + whyNot(tl, w.Target, w.Start)
		switch {
		case i < 0 || w.Start.Earliest > tl.Targets[i].Measured.Earliest:
		case !isSlow(w) && answeredIn(tl, w.Target, 0, w.Start.Latest):
			text = "when it began is not known: too few requests were answered before"
		default:
			text = "already " + failing + " when measuring began"
		}
		parts = append(parts, text)
	}
	if w.Open.End {
		text := "its end was not observed" + whyNot(tl, w.Target, w.End)
		switch {
		case tl.Run.Live:
			text = "still " + failing
		case i < 0 || w.End.Latest < tl.Targets[i].Measured.Latest:
		case !isSlow(w) && answeredIn(tl, w.Target, w.End.Earliest, w.End.Latest):
			text = "when it ended is not known: too few requests were answered after"
		default:
			text = "still " + failing + " when measuring ended"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// answeredIn reports whether requests to a target that were sent between two instants were answered well: in a slot of
// its series that lies wholly between them.
func answeredIn(tl *model.Timeline, target string, from, to time.Duration) bool {
	series, _ := tl.Buckets.Of(target)
	for i := range series.Sent {
		start := time.Duration(series.Start+i) * tl.Buckets.Width
		if start >= from && start+tl.Buckets.Width <= to && series.Sent[i] > series.Failed[i] {
			return true
		}
	}
	return false
}

// whyNot says what kept the prober from observing an end of a window, which lies somewhere in at or beyond it.
func whyNot(tl *model.Timeline, target string, at model.Instant) string {
	for _, u := range tl.Unobserved {
		if u.Target == target && u.Start <= at.Latest && u.End >= at.Earliest {
			return fmt.Sprintf(" (%s, %s)", reasonText(u.Reason), quantity.Span(u.End-u.Start))
		}
	}
	return ""
}

// downtimeText is how much downtime a window amounts to: in one of which a share failed, that share of its length.
func downtimeText(w model.Window) string {
	switch {
	case isSlow(w):
		return ""
	case isOpen(w) && w.Most != nil:
		return quantity.Length(model.Length{Min: w.Downtime.Min, Max: w.Most.Downtime}, false)
	}
	return quantity.Length(w.Downtime, isOpen(w))
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
