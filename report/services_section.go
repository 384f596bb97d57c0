package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// mostServices is how many Services have a row each.
const mostServices = 20

// servicesSection has a verdict for each Service, where there are several: a row for each that something was found of, the worst first, and one
// line for all others. Those that were set aside are named with the reason.
func servicesSection(v *view) section {
	var bad []model.WatchedService
	var fine []string
	for _, s := range v.Services {
		switch {
		case s.Verdict == nil:
		case s.Verdict.Failed > 0 || s.Verdict.Coverage < v.MinCoverage() || s.Verdict.Sent == 0:
			bad = append(bad, s)
		default:
			fine = append(fine, s.Name)
		}
	}
	if len(bad)+len(fine) < 2 && len(v.Run.SetAside) == 0 {
		return section{}
	}
	s := section{title: "services"}
	if len(bad) > 0 {
		s.blocks = append(s.blocks, servicesTable(bad))
		if len(bad) > 1 {
			s.remark = "the worst first"
		}
	}
	if len(fine) > 0 {
		s.blocks = append(s.blocks, note{text: fineText(fine), tone: green})
	}
	if unwatched := unwatchedServices(v.Timeline); len(unwatched) > 0 {
		s.blocks = append(s.blocks, note{label: "no verdict", text: listed(unwatched) + ": their endpoints were not watched", tone: yellow})
	}
	for _, aside := range AsideLines(v.Run.SetAside) {
		s.blocks = append(s.blocks, note{label: "set aside", text: aside, tone: dim})
	}
	return s
}

func servicesTable(services []model.WatchedService) table {
	t := table{item: "Service", columns: []column{
		{title: "service"}, {title: "requests"}, {title: "downtime", label: "downtime"}, {title: "incidents", right: true, label: "incidents"}, {title: "cause", label: "cause"},
	}}
	for _, s := range services[:min(len(services), mostServices)] {
		t.rows = append(t.rows, serviceRow(s))
	}
	if more := len(services) - mostServices; more > 0 {
		t.more = fmt.Sprintf("and %s: see timeline.json", quantity.Count(more, "more Service"))
	}
	return t
}

func serviceRow(s model.WatchedService) tableRow {
	v := s.Verdict
	row := tableRow{cells: []cell{{text: s.Name, verbatim: true}, {text: fmt.Sprintf("%d/%d failed", v.Failed, v.Sent)}, {}, {}, {}}}
	if v.Failed > 0 {
		row.cells[2] = cell{text: quantity.Length(v.Downtime.Total, v.Downtime.Open), tone: redBold}
		row.cells[3].text = strconv.Itoa(v.Incidents)
	} else {
		row.cells[2] = cell{text: "only " + quantity.Coverage(v.Coverage) + " observed", tone: yellow}
	}
	if v.Cause != nil {
		row.cells[4].text = fmt.Sprintf("%s (%s)", v.Cause.Rule, v.Cause.Confidence)
	}
	return row
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
