package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// mostServices is how many Services have a row each.
const mostServices = 20

// servicesSection has a verdict for each Service, where there are several: a row for each that something was found
// of, the worst first, and one line for all others. Those that were set aside are named with the reason.
func servicesSection(v *view) document.Section {
	var bad []model.WatchedService
	var fine []string
	for _, s := range v.Services {
		switch {
		case s.Verdict == nil:
		case s.Verdict.Failed+s.Verdict.Cut > 0 || unmeasured(v, s.Verdict):
			bad = append(bad, s)
		default:
			fine = append(fine, s.Name)
		}
	}
	if len(bad)+len(fine) < 2 && len(v.Run.SetAside) == 0 {
		return document.Section{}
	}
	s := document.Section{Title: "services"}
	if len(bad) > 0 {
		s.Blocks = append(s.Blocks, servicesTable(v, bad))
		if len(bad) > 1 {
			s.Remark = "the worst first"
		}
	}
	if len(fine) > 0 {
		s.Blocks = append(s.Blocks, document.Note{Text: fineText(fine), Tone: document.Green})
	}
	if unwatched := unwatchedServices(v.Timeline); len(unwatched) > 0 {
		s.Blocks = append(s.Blocks, document.Note{
			Label: "no verdict", Text: listed(unwatched) + ": their endpoints were not watched", Tone: document.Yellow,
		})
	}
	for _, aside := range AsideLines(v.Run.SetAside) {
		s.Blocks = append(s.Blocks, document.Note{Label: "set aside", Text: aside, Tone: document.Dim})
	}
	return s
}

// unmeasured reports whether more of a Service than the run asks for was not observed.
func unmeasured(v *view, of *model.ServiceVerdict) bool {
	return of.Coverage < v.MinCoverage() || of.Sent+of.Held == 0
}

func servicesTable(v *view, services []model.WatchedService) document.Table {
	t := document.Table{Item: "Service", Columns: []document.Column{
		{Title: "service"}, {Title: "requests"}, {Title: "downtime", Label: "downtime"},
		{Title: "incidents", Right: true, Label: "incidents"}, {Title: "cause", Label: "cause"},
	}}
	for _, s := range services[:min(len(services), mostServices)] {
		t.Rows = append(t.Rows, serviceRow(v, s))
	}
	if more := len(services) - mostServices; more > 0 {
		t.More = fmt.Sprintf("and %s: see timeline.json", quantity.Count(more, "more Service"))
	}
	return t
}

func serviceRow(v *view, s model.WatchedService) document.Row {
	of := s.Verdict
	row := document.Row{Cells: []document.Cell{{Text: s.Name, Verbatim: true}, {Text: lostText(of)}, {}, {}, {}}}
	switch {
	case of.Failed > 0:
		row.Cells[2] = document.Cell{Text: quantity.Length(of.Downtime.Total, of.Downtime.Open), Tone: document.RedBold}
	case unmeasured(v, of):
		only := "only " + quantity.Coverage(of.Coverage) + " observed"
		row.Cells[2] = document.Cell{Text: only, Tone: document.Yellow}
	}
	if of.Incidents > 0 {
		row.Cells[3].Text = strconv.Itoa(of.Incidents)
	}
	if of.Cause != nil {
		row.Cells[4].Text = fmt.Sprintf("%s (%s)", of.Cause.Rule, of.Cause.Confidence)
	}
	return row
}

// lostText says how many requests of a Service failed, and how many of its held connections were cut.
func lostText(of *model.ServiceVerdict) string {
	var parts []string
	if of.Sent > 0 || of.Held == 0 {
		parts = append(parts, fmt.Sprintf("%d/%d failed", of.Failed, of.Sent))
	}
	if of.Held > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d connections cut", of.Cut, of.Held))
	}
	return strings.Join(parts, ", ")
}

// unwatchedServices are those of the run that nothing was seen of in the cluster.
func unwatchedServices(tl *model.Timeline) (names []string) {
	for _, s := range tl.Run.Services {
		name := s.Namespace + "/" + s.Name
		if !slices.ContainsFunc(tl.Services, func(w model.WatchedService) bool { return w.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// fineText says in a line which Services had no failure; many are only counted.
func fineText(names []string) string {
	text := quantity.Count(len(names), "Service") + ": no failure"
	if len(names) <= maxListed {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	return text
}

// AsideLines name the Services that were set aside, in a line for each reason.
func AsideLines(all []timeline.SetAside) (lines []string) {
	names := map[string][]string{}
	var reasons []string
	for _, s := range all {
		if !slices.Contains(reasons, s.Why) {
			reasons = append(reasons, s.Why)
		}
		names[s.Why] = append(names[s.Why], s.Namespace+"/"+s.Name)
	}
	for _, why := range reasons {
		lines = append(lines, strings.Join(names[why], ", ")+": "+why)
	}
	return lines
}
