package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// What a summary shows at most; timeline.json has the rest.
const (
	maxWindows = 20 // the ones with most downtime
	maxNoted   = 5  // of these, the ones of which more is said than fits into a row
	maxGaps    = 5
)

// windows writes a row for each window.
func windows(p *page, tl *model.Timeline) {
	if len(tl.Windows) == 0 {
		return
	}
	p.WriteByte('\n')
	shown := worst(tl.Windows, maxWindows)
	remark := "times are UTC"
	if slices.ContainsFunc(shown, func(w model.Window) bool { return w.Basis == model.Statistical }) {
		remark += "; bounds hold with 99% probability"
	}
	p.heading("WINDOWS", remark)
	noted := worst(shown, maxNoted)
	rows, roomy := windowRows(p, tl, shown)
	p.line(rows[0]...)
	for i, w := range shown {
		p.line(rows[i+1]...)
		if roomy < withErrors {
			detail(p, "error", errorText(w), normal)
		}
		if slices.ContainsFunc(noted, func(n model.Window) bool { return n.ID == w.ID }) {
			if roomy < withDowntime && !isSlow(w) && downtimeText(w) != windowLength(w) {
				detail(p, "note", "downtime, weighed by the share that failed: "+downtimeText(w), dim)
			}
			for _, note := range windowNotes(tl, w) {
				detail(p, "note", note, dim)
			}
		}
	}
	if more := len(tl.Windows) - len(shown); more > 0 {
		p.line(p.span(fmt.Sprintf("   and %s with less downtime: see timeline.json", plural(more, "more window")), dim))
	}
}

// How much of a window has room in its row; what has not, stands below it.
const (
	withErrors   = 2
	withDowntime = 1
)

// windowRows are the heading and a row for each window, with as much as there is room for.
func windowRows(p *page, tl *model.Timeline, shown []model.Window) (rows [][]span, roomy int) {
	names := targetNames(p, tl)
	weighed := slices.ContainsFunc(shown, func(w model.Window) bool { return !isSlow(w) && downtimeText(w) != windowLength(w) })
	for roomy = withErrors; roomy >= 0; roomy-- {
		titles := []string{"#", "START", "LENGTH", "DOWNTIME", "KIND", "REQUESTS", "SEEN BY", "ERROR"}
		cells := [][]span{header(titles...)}
		for _, w := range shown {
			cells = append(cells, windowRow(p, tl, w, names[w.Target]))
		}
		for i, row := range cells {
			if roomy < withErrors {
				row = row[:len(row)-1]
			}
			if roomy < withDowntime || !weighed {
				row = slices.Delete(row, 3, 4)
			}
			cells[i] = row
		}
		if rows = indented(align(cells, 0)); fits(p, rows) {
			return rows, roomy
		}
	}
	return rows, 0
}

// fit aligns rows. Where they are too wide for the screen it leaves out the last column, and reports false: it goes on a line
// of its own.
func fit(p *page, rows [][]span) (fitted [][]span, roomy bool) {
	if fitted = indented(align(rows, 0)); fits(p, fitted) {
		return fitted, true
	}
	for i, row := range rows {
		rows[i] = row[:len(row)-1]
	}
	return indented(align(rows, 0)), false
}

func indented(rows [][]span) [][]span {
	for i, row := range rows {
		rows[i] = slices.Insert(row, 0, span{"   ", normal})
	}
	return rows
}

// fits reports whether rows are no wider than the screen.
func fits(p *page, rows [][]span) bool {
	return !slices.ContainsFunc(rows, func(row []span) bool { return width(trimRight(row)) > p.Width })
}

func header(titles ...string) []span {
	row := make([]span, len(titles))
	for i, title := range titles {
		row[i] = span{title, dim}
	}
	return row
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

func windowRow(p *page, tl *model.Timeline, w model.Window, target string) []span {
	colour := map[model.WindowKind]style{model.Outage: redBold, model.Partial: red, model.Slow: yellow}[w.Kind]
	return []span{
		{fmt.Sprint(w.ID), normal},
		{startText(tl, w), normal},
		p.span(windowLength(w), bold),
		p.span(downtimeText(w), normal),
		p.span(string(w.Kind), colour),
		p.span(requestsText(w)+"  "+FormatShare(w.Share), normal),
		{target, normal},
		p.span(errorText(w), normal),
	}
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

// startText is when a window began: the middle of its bracket, or the bracket's end if that is too wide for a point.
func startText(tl *model.Timeline, w model.Window) string {
	start := begun(w)
	if start.Latest-start.Earliest > widestPoint {
		return "by " + wallClock(tl, start.Latest, "15:04:05.000")
	}
	return wallClock(tl, middle(start), "15:04:05.000")
}

func middle(i model.Instant) time.Duration { return i.Earliest + (i.Latest-i.Earliest)/2 }

// windowLength is how long a window took. One whose end was not observed is still no longer than what is known to be well
// beyond. Requests that were cut in flight all failed at one instant, however long they had been under way.
func windowLength(w model.Window) string {
	if w.Cut != nil {
		return "at once"
	}
	if isOpen(w) && w.Most != nil {
		return FormatLength(model.Length{Min: w.Length.Min, Max: w.Most.Length}, false)
	}
	return FormatLength(w.Length, isOpen(w))
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

// classList names the classes of a window's requests, the most frequent first.
func classList(classes map[string]int) string {
	names := slices.SortedFunc(maps.Keys(classes), func(a, b string) int {
		return cmp.Or(cmp.Compare(classes[b], classes[a]), cmp.Compare(a, b))
	})
	if len(names) == 1 {
		return names[0]
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, classes[name])
	}
	return strings.Join(names, ", ")
}

// targetNames gives each judged target the shortest name that tells it from the others: its kind, or
// its own name.
func targetNames(p *page, tl *model.Timeline) map[string]string {
	kinds := map[timeline.TargetKind]int{}
	for _, t := range judged(tl) {
		kinds[t.Kind]++
	}
	names := map[string]string{}
	for _, t := range tl.Targets {
		name := t.Name
		if kinds[t.Kind] == 1 && len(tl.Run.Services)+len(tl.Run.URLs) <= 1 {
			name = string(t.Kind)
		}
		names[t.Name] = cutMiddle(p.say(name), max(12, p.Width/4), p.ellipsis())
	}
	return names
}

// detail writes a labelled paragraph below a window's row.
func detail(p *page, label, text string, s style) {
	p.paragraph([]span{{"      ", normal}, p.span(fmt.Sprintf("%-7s", label), dim)}, text, s)
}

// windowNotes says what its row does not: what its failures said themselves, where its end was not seen, and how sure its
// bounds are.
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
		notes = append(notes, "longest stretch without an answer: "+FormatLength(*w.Blackout, false))
	}
	return notes
}

// sinceWhen tells of an error that was known before the window.
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
		if i >= 0 && w.Start.Earliest <= tl.Targets[i].Measured.Earliest {
			text = "already " + failing + " when measuring began"
		}
		parts = append(parts, text)
	}
	if w.Open.End {
		text := "its end was not observed" + whyNot(tl, w.Target, w.End)
		if tl.Run.Live {
			text = "still " + failing
		} else if i >= 0 && w.End.Latest >= tl.Targets[i].Measured.Latest {
			text = "still " + failing + " when measuring ended"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// whyNot says what kept the prober from observing an end of a window, which lies somewhere in at or beyond it.
func whyNot(tl *model.Timeline, target string, at model.Instant) string {
	for _, u := range tl.Unobserved {
		if u.Target == target && u.Start <= at.Latest && u.End >= at.Earliest {
			return fmt.Sprintf(" (%s, %s)", reasonText(u.Reason), FormatDuration(u.End-u.Start))
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
		return FormatLength(model.Length{Min: w.Downtime.Min, Max: w.Most.Downtime}, false)
	}
	return FormatLength(w.Downtime, isOpen(w))
}

// unobserved writes when nothing was measured, the longest gaps only.
func unobserved(p *page, tl *model.Timeline) {
	gaps := sharedGaps(tl.Unobserved, targetNames(p, tl))
	if len(gaps) == 0 {
		return
	}
	p.WriteByte('\n')
	p.heading("UNOBSERVED", "neither up nor down: not measured")
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Compare(b.End-b.Start, a.End-a.Start) })
	n := min(len(gaps), maxGaps)
	shown, rest := gaps[:n], gaps[n:]
	slices.SortStableFunc(shown, func(a, b gap) int { return cmp.Compare(a.Start, b.Start) })
	var rows [][]span
	for _, g := range shown {
		rows = append(rows, []span{
			p.span(wallClock(tl, g.Start, "15:04:05.000"), normal), p.span(FormatDuration(g.End-g.Start), bold),
			p.span(strings.Join(g.targets, ", "), normal), p.span(g.Reason, normal),
		})
	}
	for _, row := range align(rows) {
		p.line(slices.Insert(row, 0, span{"   ", normal})...)
	}
	if len(rest) > 0 {
		total := sum(rest, func(g gap) int { return int(g.End - g.Start) })
		p.line(p.span(fmt.Sprintf("   and %s, %s in all", plural(len(rest), "shorter gap"), FormatDuration(time.Duration(total))), dim))
	}
}

// A gap is unobserved time, with every target that shares it.
type gap struct {
	model.Unobserved
	targets []string
}

// proberStalled is why time was not observed in which the prober was late with a request, or did not run at all.
const proberStalled = "prober stalled"

// reasonText says why time was not observed, in one word for one thing.
func reasonText(reason string) string {
	switch reason {
	case "not sent":
		return proberStalled
	case "local fault":
		return "prober failed itself"
	}
	return reason
}

func sharedGaps(list []model.Unobserved, names map[string]string) []gap {
	var gaps []gap
	place := map[model.Unobserved]int{}
	for _, u := range list {
		name := cmp.Or(names[u.Target], u.Target)
		u.Target, u.Reason = "", reasonText(u.Reason)
		i, known := place[u]
		if !known {
			i = len(gaps)
			place[u] = i
			gaps = append(gaps, gap{Unobserved: u})
		}
		gaps[i].targets = append(gaps[i].targets, name)
	}
	return gaps
}
