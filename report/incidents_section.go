package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/report/document"
)

// What a summary shows of incidents at most; timeline.json has the rest.
const (
	maxIncidents = 10
	maxCauses    = 3 // of an incident
)

// incidentsSection lists each incident once, the most harmful first: who lost how much, what set it off, the cause
// and the fix.
func incidentsSection(v *view) document.Section {
	if len(v.Incidents) == 0 {
		return document.Section{}
	}
	all := mostHarmful(v.Incidents)
	shown := all[:min(len(all), maxIncidents)]
	t := document.Table{Item: "incident", Columns: []document.Column{
		{Title: "#", Right: true}, {Title: "start"}, {Title: "lasted"}, {Title: "downtime", Label: "downtime"}, {Title: "requests"},
		{Title: "seen by", Label: "seen by"}, {Title: "error", Label: "error"}, {Title: "set off by", Label: "set off by"},
	}}
	fixes := map[string]int{} // the incident that a fix was listed with
	for _, in := range shown {
		t.Rows = append(t.Rows, v.incidentRow(in, fixes))
	}
	if more := len(all) - len(shown); more > 0 {
		t.More = fmt.Sprintf("and %s that did less harm: see timeline.json", quantity.Count(more, "more incident"))
	}
	s := document.Section{Title: "incidents", Remark: "times are UTC", Blocks: []document.Block{t}}
	if len(all) > 1 {
		s.Remark += "; the most harmful first"
	}
	if !v.detailed() {
		s.Blocks = append(s.Blocks, document.Note{Text: "each window, with evidence and rivals: -v", Tone: document.Dim})
	}
	return s
}

// mostHarmful sorts incidents by downtime, the longest first. The page sorts them so too.
func mostHarmful(incidents []model.Incident) []model.Incident {
	return slices.SortedStableFunc(slices.Values(incidents), func(a, b model.Incident) int {
		return cmp.Or(cmp.Compare(b.Downtime.Max, a.Downtime.Max), cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Cut, a.Cut), cmp.Compare(b.Slow, a.Slow))
	})
}

func (v *view) incidentRow(in model.Incident, listed map[string]int) document.Row {
	windows := v.windowsOf(in)
	tone := document.RedBold
	if in.Failed == 0 && in.Cut == 0 {
		tone = document.Yellow
	}
	row := document.Row{Cells: []document.Cell{
		{Text: fmt.Sprint(in.ID)},
		{Text: startText(v.Timeline, onset(in, windows)), Exact: clock(v.Timeline, onset(in, windows), openAtStart(windows), false)},
		{Text: lasted(in, windows), Tone: document.Bold},
		{Text: incidentDowntime(in, windows), Tone: tone},
		{Text: incidentRequests(in)},
		{Text: v.nameList(in.Targets), Verbatim: true},
		{Text: incidentErrors(in), Verbatim: true},
		{Text: triggerText(in), Verbatim: len(in.Triggers) > 0},
	}}
	if len(in.Targets) > 1 {
		row.Notes = append(row.Notes, document.Note{Label: "lost", Text: v.losses(in, windows)})
	}
	for _, text := range v.incidentDoubts(in, windows) {
		row.Notes = append(row.Notes, document.Note{Label: "note", Text: text, Tone: document.Dim})
	}
	row.Notes = append(row.Notes, incidentCauses(in, windows, listed)...)
	return row
}

// windowsOf are the windows of an incident, those of held connections last.
func (v *view) windowsOf(in model.Incident) []model.Window {
	all := slices.Clone(v.Windows)
	for _, w := range v.HeldWindows() {
		all = append(all, w.Window)
	}
	return slices.DeleteFunc(all, func(w model.Window) bool { return !slices.Contains(in.Windows, w.ID) })
}

// onset is when the first window began: of requests cut in flight, when they were cut.
func onset(in model.Incident, windows []model.Window) model.Instant {
	if len(windows) == 1 {
		return begun(windows[0])
	}
	return in.Start
}

func openAtStart(windows []model.Window) bool {
	return len(windows) > 0 && windows[0].Open.Start
}

// lasted is from when the first window began to when the last one ended.
func lasted(in model.Incident, windows []model.Window) string {
	if len(windows) == 1 {
		return windowLength(windows[0])
	}
	length := model.Length{Min: max(0, in.End.Earliest-in.Start.Latest), Max: in.End.Latest - in.Start.Earliest}
	if in.Recurs != nil {
		return fmt.Sprintf("%d times in %s", in.Recurs.Times, quantity.Length(length, in.Open))
	}
	return quantity.Length(length, in.Open) + " in " + quantity.Count(len(in.Windows), "window")
}

// incidentDowntime is the worst target's.
func incidentDowntime(in model.Incident, windows []model.Window) string {
	switch {
	case in.Failed == 0 && in.Slow == 0:
		return "no request"
	case in.Failed == 0:
		return "none, slow"
	case len(windows) == 1:
		return downtimeText(windows[0])
	}
	return quantity.Length(in.Downtime, in.Open)
}

// incidentRequests says how many requests failed or were slow of those that an incident is about.
func incidentRequests(in model.Incident) string {
	var parts []string
	if in.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d failed  %s", in.Failed, in.Sent, quantity.Percent(float64(in.Failed)/float64(max(1, in.Sent)))))
	}
	if in.Slow > 0 || in.Failed == 0 && in.Cut == 0 {
		parts = append(parts, fmt.Sprintf("%d/%d slow", in.Slow, in.Sent))
	}
	if in.Cut > 0 {
		parts = append(parts, quantity.Count(in.Cut, "connection")+" cut")
	}
	return strings.Join(parts, ", ")
}

func incidentErrors(in model.Incident) string {
	switch {
	case in.Failed > 0:
		return classList(in.Classes)
	case in.Slow > 0 || in.Cut == 0:
		return "answered late"
	}
	return "cut"
}

func triggerText(in model.Incident) string {
	texts := make([]string, len(in.Triggers))
	for i, t := range in.Triggers {
		texts[i] = t.Text
	}
	return cmp.Or(strings.Join(texts, "; "), "not known")
}

// losses says what each target lost, the one that lost most first.
func (v *view) losses(in model.Incident, windows []model.Window) string {
	var parts []string
	for _, target := range in.Targets {
		var lost model.Length
		open, sent, failed, slow, cut, held := false, 0, 0, 0, 0, 0
		for _, w := range windows {
			if w.Target == target && w.Kind == model.CutKind {
				cut, held = cut+w.Failed, w.Sent
			} else if w.Target == target {
				lost.Min, lost.Max = lost.Min+w.Downtime.Min, lost.Max+w.Downtime.Max
				open, sent, failed, slow = open || isOpen(w), sent+w.Sent, failed+w.Failed, slow+w.Slow
			}
		}
		part := fmt.Sprintf("%s %s (%d/%d failed)", v.name(target), quantity.Length(lost, open), failed, sent)
		switch {
		case cut > 0:
			part = fmt.Sprintf("%s %s", v.name(target), quantity.Count(cut, "connection"))
			if cut <= held {
				part = fmt.Sprintf("%s %d/%d connections", v.name(target), cut, held)
			}
		case failed == 0:
			part = fmt.Sprintf("%s nothing (%d/%d slow)", v.name(target), slow, sent)
		}
		parts = append(parts, part)
	}
	return listed(parts)
}

// incidentDoubts says what of an incident was not observed or is not final, and, where no rule explains it, what its
// failures said.
func (v *view) incidentDoubts(in model.Incident, windows []model.Window) []string {
	var notes []string
	add := func(text string) {
		if text != "" && !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	for _, w := range windows {
		if len(in.Causes) == 0 || in.Causes[0].Rule == "unexplained" {
			for _, e := range w.Errors {
				add(e.Class + ": " + e.Text)
			}
		}
		add(openText(v.Timeline, w))
	}
	if more := len(notes) - maxListed; more > 1 {
		notes = append(notes[:maxListed:maxListed], fmt.Sprintf("and %d more: -v", more))
	}
	add(setAsideText(in))
	if in.Live {
		add("not final: later requests may change it")
	}
	return notes
}

// setAsideText says how many requests failed amid an incident that are no evidence; "" if there is none.
func setAsideText(in model.Incident) string {
	switch in.SetAside {
	case 0:
		return ""
	case 1:
		return "1 request more was set aside: the prober stood still while it waited, or had no socket for it"
	}
	return fmt.Sprintf("%d requests more were set aside: the prober stood still while they waited, or had no socket for them", in.SetAside)
}

// incidentCauses are the causes, the one that explains most losses first, and the fixes. A fix that was listed with
// another incident is only referred to.
func incidentCauses(in model.Incident, windows []model.Window, listed map[string]int) []document.Note {
	var causes, fixes []document.Note
	for i, c := range in.Causes {
		if i == maxCauses {
			causes = append(causes, document.Note{Label: "cause", Text: quantity.Count(len(in.Causes)-i, "more rule") + " for other windows: -v"})
			break
		}
		causes = append(causes, document.Note{Label: "cause", Text: causeText(c, windows, in.Recurs != nil), Tone: document.Bold})
		label := "fix"
		if c.Rule == "unexplained" { // it says where to look
			label = "next"
		}
		switch first, known := listed[c.Fix]; {
		case c.Fix == "" || first == in.ID:
		case known:
			fixes = append(fixes, document.Note{Label: label, Text: fmt.Sprintf("that of incident %d", first), Tone: document.Green})
		default:
			listed[c.Fix] = in.ID
			fixes = append(fixes, document.Note{Label: label, Text: c.Fix, Tone: document.Green})
		}
	}
	return append(causes, fixes...)
}

// causeText is a cause with how sure it is, and of how many windows: its text is about the one where it was measured
// best.
func causeText(c model.IncidentCause, windows []model.Window, recurs bool) string {
	text := fmt.Sprintf("%s (%s confidence): %s", c.Rule, c.Confidence, c.Text)
	switch {
	case len(c.Windows) < 2:
		return text
	case c.Rule == "unexplained" && recurs:
		return text
	case c.Rule == "unexplained":
		return fmt.Sprintf("%s; %d windows are unexplained", text, len(c.Windows))
	}
	text += fmt.Sprintf("; the best measured of %d windows with this cause", len(c.Windows))
	confidences := map[model.Confidence]int{}
	for _, w := range windows {
		if slices.Contains(c.Windows, w.ID) && len(w.Causes) > 0 {
			confidences[w.Causes[0].Confidence]++
		}
	}
	delete(confidences, c.Confidence)
	for _, other := range slices.Sorted(maps.Keys(confidences)) {
		text += fmt.Sprintf(", %d of them with %s confidence", confidences[other], other)
	}
	return text
}
