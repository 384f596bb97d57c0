package report

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// controlPlaneSection has how each API server answered, and how late the watch was.
func controlPlaneSection(v *view) document.Section {
	plane := v.ControlPlane
	if plane == nil {
		return document.Section{}
	}
	s := document.Section{Title: "control plane", Remark: "no part of the verdict"}
	t := document.Table{Item: "API server", Columns: []document.Column{
		{Title: "address"}, {Title: "GET"}, {Title: "from"}, {Title: "failed", Right: true}, {Title: "out (UTC)"},
	}}
	for i := range plane.Servers {
		t.Rows = append(t.Rows, v.apiServerRow(&plane.Servers[i]))
	}
	if len(t.Rows) > 0 {
		s.Blocks = append(s.Blocks, t)
	}
	if plane.NotAsked != "" {
		s.Blocks = append(s.Blocks, document.Note{Text: "not measured: " + document.Clean(plane.NotAsked)})
	}
	if lag := plane.WatchLag; lag != nil {
		text := fmt.Sprintf("the watch brought %s of endpoints at most %s after they had happened",
			quantity.Count(lag.Changes, "change"), quantity.Highest(lag.Longest))
		s.Blocks = append(s.Blocks, document.Note{Text: text, Tone: document.Dim})
	}
	return s
}

func (v *view) apiServerRow(s *model.APIServer) document.Row {
	failed, out := "not measured", "-"
	if at := slices.IndexFunc(v.Targets, func(t model.Target) bool { return t.Name == s.Target }); at >= 0 &&
		s.NotMeasured == "" {
		failed = fmt.Sprintf("%d of %d", v.Targets[at].Failed, v.Targets[at].Sent)
	}
	var notes []document.Note
	for i, o := range s.Outages {
		text := fmt.Sprintf("%s for %s", wallClock(v.Timeline, o.Start.Latest, time.TimeOnly),
			quantity.Length(o.Length, o.Open.Start || o.Open.End))
		if i == 0 {
			out = text
		} else {
			notes = append(notes, document.Note{Label: "out", Text: text})
		}
	}
	for _, code := range slices.Sorted(maps.Keys(s.Refused)) {
		text := fmt.Sprintf("it is up, and refused %s with status %d", quantity.Count(s.Refused[code], "request"), code)
		notes = append(notes, document.Note{Label: "note", Text: text, Tone: document.Dim})
	}
	if s.NotMeasured != "" {
		notes = append(notes, document.Note{Label: "why", Text: document.Clean(s.NotMeasured), Tone: document.Dim})
	}
	from := s.Node
	if from == "" {
		from = "-"
	}
	return document.Row{Notes: notes, Cells: []document.Cell{
		{Text: s.Addr, Verbatim: true}, {Text: s.Path, Verbatim: true}, {Text: from, Verbatim: true},
		{Text: failed}, {Text: out},
	}}
}
