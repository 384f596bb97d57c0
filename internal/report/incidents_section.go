package report

import (
	"fmt"
	"slices"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// maxIncidents is how many incidents a summary shows at most; timeline.json has the rest.
const maxIncidents = 10

// timesOfEvidence says what the instants of evidence count from.
const timesOfEvidence = "T is the first failure of the window where a cause was measured best"

// incidentsSection lists each incident once, the most harmful first: who lost how much, what set it off, the cause
// and the fix.
func incidentsSection(v *view) document.Section {
	if len(v.Incidents) == 0 {
		return document.Section{}
	}
	all := model.MostHarmful(v.Incidents)
	shown := all[:min(len(all), maxIncidents)]
	t := document.Table{Item: "incident", Columns: []document.Column{
		{Title: "#", Right: true}, {Title: "start"}, {Title: "lasted"}, {Title: "downtime", Label: "downtime"},
		{Title: "requests"},
		{Title: "seen by", Label: "seen by"}, {Title: "error", Label: "error"},
		{Title: "set off by", Label: "set off by"},
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
	s.Blocks = append(s.Blocks, document.Note{Text: timesOfEvidence, Tone: document.Dim})
	return s
}

func (v *view) incidentRow(in model.Incident, listed map[string]int) document.Row {
	windows := v.windowsOf(in)
	began, tone := onset(in, windows), document.RedBold
	if in.Failed == 0 && in.Cut == 0 {
		tone = document.Yellow
	}
	row := document.Row{Cells: []document.Cell{
		{Text: fmt.Sprint(in.ID)},
		{Text: startText(v.Timeline, began), Exact: clock(v.Timeline, began, openAtStart(windows), false)},
		{Text: in.Said.Lasted, Tone: document.Bold},
		{Text: in.Said.Downtime, Tone: tone},
		{Text: in.Said.Requests},
		{Text: v.nameList(in.Targets), Verbatim: true},
		{Text: in.Said.Errors, Verbatim: true},
		{Text: in.Said.SetOffBy, Verbatim: len(in.Triggers) > 0},
	}}
	row.Notes = slices.Concat(v.losses(in), incidentNotes(in), v.incidentCauses(in, windows, listed))
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

// losses returns what the targets of an incident lost.
func (v *view) losses(in model.Incident) []document.Note {
	var parts []string
	for _, l := range in.Said.Lines {
		if l.Kind == model.LineLost {
			parts = append(parts, v.name(l.Target)+" "+l.Text)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	parts = append(parts, in.Targets[len(parts):]...) // which are only counted
	return []document.Note{{Label: "lost", Text: listed(parts)}}
}

// incidentNotes returns what of an incident was not observed or is not final, and what its failures said.
func incidentNotes(in model.Incident) (notes []document.Note) {
	var many, others []string
	for _, l := range in.Said.Lines {
		switch l.Kind {
		case model.LineError, model.LineEdge:
			many = append(many, l.Text)
		case model.LineNoEvidence, model.LineLive:
			others = append(others, l.Text)
		}
	}
	if more := len(many) - maxListed; more > 1 {
		many = append(many[:maxListed:maxListed], fmt.Sprintf("and %d more: see timeline.json", more))
	}
	for _, text := range append(many, others...) {
		notes = append(notes, document.Note{Label: "note", Text: text, Tone: document.Dim})
	}
	return notes
}

// incidentCauses returns the causes, the one that explains most losses first, and the fixes. A fix that was listed
// with another incident is only referred to.
func (v *view) incidentCauses(in model.Incident, windows []model.Window, listed map[string]int) []document.Note {
	var causes, fixes []document.Note
	for _, l := range in.Said.Lines {
		switch l.Kind {
		case model.LineCause:
			details := proof(&in.Causes[len(causes)], windows)
			cause := document.Note{Label: "cause", Text: l.Text, Tone: document.Bold, Details: details}
			causes = append(causes, cause)
		case model.LineFix, model.LineNext:
			fix := document.Note{Label: string(l.Kind), Text: l.Text, Tone: document.Green}
			if first, known := listed[l.Text]; known {
				fix.Text = fmt.Sprintf("that of incident %d", first)
			} else {
				listed[l.Text] = in.ID
			}
			fixes = append(fixes, fix)
		}
	}
	return append(causes, fixes...)
}
