package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate"
	"lapse/timeline"
)

// What a summary shows at most; timeline.json has the rest.
const (
	maxWindows   = 20 // the ones with most downtime
	maxExplained = 5  // of these, the ones whose cause is spelled out
	maxGaps      = 5
)

// windows writes a row for each window, and below it why it opened.
func windows(p *page, tl *correlate.Timeline) {
	if len(tl.Windows) == 0 {
		return
	}
	p.WriteByte('\n')
	p.heading("WINDOWS", "times are UTC")
	shown := worst(tl.Windows, maxWindows)
	explained := explain(shown)
	names := targetNames(p, tl)
	rows := [][]span{header("#", "START", "LENGTH", "KIND", "FAILED/SENT", "SEEN BY", "ERROR")}
	for _, w := range shown {
		rows = append(rows, windowRow(p, tl, w, names[w.Target]))
	}
	rows, roomy := fit(p, rows)
	p.line(rows[0]...)
	for i, w := range shown {
		p.line(rows[i+1]...)
		if !roomy {
			detail(p, "error", errorText(w), normal)
		}
		if same, ok := explained[w.ID]; ok {
			why(p, tl, w, same)
		}
	}
	if more := len(tl.Windows) - len(shown); more > 0 {
		p.line(p.span(fmt.Sprintf("   and %s with less downtime: see timeline.json", plural(more, "more window")), dim))
	}
}

// explain picks the windows whose causes are spelled out. It gives each the window that was already
// found to have the very same cause, or 0.
func explain(windows []correlate.Window) map[int]int {
	type finding struct{ rule, text, fix string }
	told := map[finding]int{}
	explained := map[int]int{}
	for _, w := range worst(windows, maxExplained) {
		explained[w.ID] = 0
		if len(w.Causes) > 0 && w.Causes[0].Rule != "unexplained" { // which two windows have not in common
			cause := finding{w.Causes[0].Rule, w.Causes[0].Text, w.Causes[0].Fix}
			explained[w.ID] = told[cause]
			told[cause] = cmp.Or(told[cause], w.ID)
		}
	}
	return explained
}

// fit aligns the rows of the windows. Where they are too wide for the screen it leaves out the last
// column, and reports false: it goes on a line of its own.
func fit(p *page, rows [][]span) (fitted [][]span, roomy bool) {
	roomy = true
	for i, row := range align(rows, 0) {
		row = slices.Insert(row, 0, span{"   ", normal})
		roomy = roomy && width(trimRight(row)) <= p.Width
		fitted = append(fitted, row)
		rows[i] = rows[i][:len(rows[i])-1]
	}
	if roomy {
		return fitted, true
	}
	for i, row := range align(rows, 0) {
		fitted[i] = slices.Insert(row, 0, span{"   ", normal})
	}
	return fitted, false
}

func header(titles ...string) []span {
	row := make([]span, len(titles))
	for i, title := range titles {
		row[i] = span{title, dim}
	}
	return row
}

// worst picks the n windows with most downtime, and keeps their order.
func worst(windows []correlate.Window, n int) []correlate.Window {
	if len(windows) <= n {
		return windows
	}
	byDowntime := slices.SortedStableFunc(slices.Values(windows), func(a, b correlate.Window) int {
		return cmp.Or(cmp.Compare(b.Downtime.Max, a.Downtime.Max), cmp.Compare(b.Length.Max, a.Length.Max))
	})[:n]
	slices.SortStableFunc(byDowntime, func(a, b correlate.Window) int { return cmp.Compare(a.ID, b.ID) })
	return byDowntime
}

func windowRow(p *page, tl *correlate.Timeline, w correlate.Window, target string) []span {
	colour := map[correlate.WindowKind]style{correlate.Outage: redBold, correlate.Partial: red, correlate.Slow: yellow}[w.Kind]
	return []span{
		{fmt.Sprint(w.ID), normal},
		p.span(wallClock(tl, middle(w.Start), "15:04:05.000"), normal),
		p.span(FormatLength(w.Length, isOpen(w)), bold),
		p.span(string(w.Kind), colour),
		p.span(fmt.Sprintf("%d/%d  %s", w.Failed+w.Slow, w.Sent, FormatShare(w.Share)), normal),
		{target, normal},
		p.span(errorText(w), normal),
	}
}

func wallClock(tl *correlate.Timeline, at time.Duration, layout string) string {
	return tl.T0.Add(at).UTC().Format(layout)
}

func middle(i correlate.Instant) time.Duration { return i.Earliest + (i.Latest-i.Earliest)/2 }

func errorText(w correlate.Window) string {
	if w.Kind == correlate.Slow {
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
func targetNames(p *page, tl *correlate.Timeline) map[string]string {
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

// why tells the story of a window: its cause, the evidence in the order of time counted from the
// window's start, what to change, and what else it could have been. What was told of another window,
// same, is not told again.
func why(p *page, tl *correlate.Timeline, w correlate.Window, same int) {
	if same > 0 {
		detail(p, "cause", fmt.Sprintf("as in window %d [%s]", same, w.Causes[0].Confidence), normal)
	} else if len(w.Causes) > 0 {
		cause := w.Causes[0]
		detail(p, "cause", fmt.Sprintf("%s [%s]", cause.Text, cause.Confidence), bold)
		evidence(p, w, cause.Evidence)
		if cause.Fix != "" {
			detail(p, "fix", cause.Fix, green)
		}
		for _, rival := range cause.Rivals {
			detail(p, "rival", rival, dim)
		}
	}
	for _, note := range windowNotes(tl, w) {
		detail(p, "note", note, dim)
	}
}

// detail writes a labelled paragraph below a window's row.
func detail(p *page, label, text string, s style) {
	p.paragraph([]span{{"      ", normal}, p.span(fmt.Sprintf("%-7s", label), dim)}, text, s)
}

// windowNotes says what its row does not: what its failures said themselves, where its end was not seen, and how sure its
// bounds are.
func windowNotes(tl *correlate.Timeline, w correlate.Window) []string {
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
	if w.Kind == correlate.Partial {
		notes = append(notes, partialText(w))
	}
	return notes
}

// sinceWhen tells of an error that was known before the window.
func sinceWhen(tl *correlate.Timeline, w correlate.Window, e correlate.ErrorText) string {
	if e.First.Latest >= w.Start.Earliest {
		return ""
	}
	return " (first seen at " + wallClock(tl, e.First.Latest, "15:04:05.000") + ")"
}

func openText(tl *correlate.Timeline, w correlate.Window) string {
	var parts []string
	i := slices.IndexFunc(tl.Targets, func(t correlate.Target) bool { return t.Name == w.Target })
	if w.Open.Start {
		text := "its start lies in unobserved time"
		if i >= 0 && w.Start.Earliest <= tl.Targets[i].Measured.Earliest {
			text = "already failing when measuring began"
		}
		parts = append(parts, text)
	}
	if w.Open.End {
		text := "its end lies in unobserved time"
		if tl.Run.Live {
			text = "still failing"
		} else if i >= 0 && w.End.Latest >= tl.Targets[i].Measured.Latest {
			text = "still failing when measuring ended"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func partialText(w correlate.Window) string {
	text := fmt.Sprintf("counts as %s of downtime", FormatLength(w.Downtime, isOpen(w)))
	if w.Blackout != nil {
		text += "; longest stretch without an answer " + FormatLength(*w.Blackout, false)
	}
	if w.Basis == correlate.Statistical {
		text += "; bounds hold with 99% probability"
	}
	return text
}

// evidence writes the facts a cause rests on, each at its distance from the window's start.
func evidence(p *page, w correlate.Window, facts []correlate.Evidence) {
	facts = slices.SortedStableFunc(slices.Values(facts), func(a, b correlate.Evidence) int {
		return cmp.Compare(when(a), when(b))
	})
	var rows [][]span
	for _, fact := range facts {
		rows = append(rows, []span{p.span(sinceStart(w, fact.At), cyan), p.span(fact.Text, normal)})
	}
	label := "why"
	for _, row := range align(rows, 0) {
		lead := []span{{"      ", normal}, p.span(fmt.Sprintf("%-7s", label), dim), row[0], row[1]}
		p.paragraph(lead, row[2].text, normal)
		label = ""
	}
}

// when orders evidence: what has no instant comes last.
func when(fact correlate.Evidence) time.Duration {
	if fact.At == nil {
		return 1<<63 - 1
	}
	return fact.At.Latest
}

// vague is from when on an instant is known so badly that only its later bound is worth reading.
const vague = 200 * time.Millisecond

// sinceStart is the distance of an instant from when the window's first failure was known.
func sinceStart(w correlate.Window, at *correlate.Instant) string {
	switch {
	case at == nil:
		return ""
	case at.Earliest <= correlate.Unbounded:
		return "before"
	}
	offset := correlate.Instant{Earliest: at.Earliest - w.Start.Latest, Latest: at.Latest - w.Start.Latest}
	if offset.Latest-offset.Earliest > vague {
		return "by " + FormatOffset(correlate.Instant{Earliest: offset.Latest, Latest: offset.Latest})
	}
	return FormatOffset(offset)
}

// unobserved writes when nothing was measured, the longest gaps only.
func unobserved(p *page, tl *correlate.Timeline) {
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
	correlate.Unobserved
	targets []string
}

func sharedGaps(list []correlate.Unobserved, names map[string]string) []gap {
	var gaps []gap
	place := map[correlate.Unobserved]int{}
	for _, u := range list {
		name := cmp.Or(names[u.Target], u.Target)
		u.Target = ""
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
