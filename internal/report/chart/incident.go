package chart

import (
	"path"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// What is drawn around an incident, and how many of its Pods.
const (
	before           = time.Second
	after            = 2 * time.Second
	widestIncident   = 120
	widestMoment     = 80 // columns of cells
	mostIncidentPods = 3
)

// A moment is the chart of a run around one of its incidents.
type moment struct {
	*chart
	in *model.Incident
}

// Incident draws a run around one of its incidents: the targets by their kind, whatever node they send from, and the
// Pods that changed then.
func Incident(tl *model.Timeline, in *model.Incident, screen document.Screen) document.Section {
	if tl.Buckets.Width <= 0 || tl.Run.Duration <= 0 || tl.Buckets.Len() == 0 {
		return document.Section{}
	}
	wide := screen.Width
	screen.Width = min(screen.Width, widestIncident)
	c := &moment{chart: newChart(tl, nil, screen), in: in}
	c.from, c.to = around(tl, in)
	for _, t := range tl.Judged() {
		if slices.Contains(in.Targets, t.Name) {
			c.targets = append(c.targets, t)
		}
	}
	groups := c.groups()
	pods := c.pods()
	labels := c.podLabels(pods)
	width := len("endpoints")
	for _, g := range groups {
		width = max(width, document.Columns(g.label))
	}
	for _, label := range labels {
		width = max(width, document.Columns(label))
	}
	label := min(width, c.Width/3)
	full := c.Width
	c.Width = min(full, label+5+widestMoment)
	c.fitBeside(label)
	c.Width = full
	draw := func() {
		rows := slices.Concat([]row{c.axis()}, c.commandRow())
		for _, g := range groups {
			rows = append(rows, row{g.label, c.strip(g.target, g.series, 0, c.cells-1)})
		}
		rows = slices.Concat(rows, c.heldRows(c.held()), c.endpointRows(c.services()))
		for _, pod := range pods {
			rows = append(rows, row{labels[pod.UID], c.lane(pod)})
		}
		c.draw(rows)
		c.Width = wide
		c.legend()
	}
	return document.Section{
		Title:  "timeline",
		Remark: "one cell = " + quantity.Span(min(c.cell, c.to-c.from)),
		Blocks: []document.Block{c.drawing(draw)},
	}
}

// around returns the part of a run that is drawn of an incident.
func around(tl *model.Timeline, in *model.Incident) (from, to time.Duration) {
	from, to = in.Start.Latest, in.End.Earliest
	if in.FailedFrom != nil && in.FailedTo != nil {
		from, to = *in.FailedFrom, *in.FailedTo
	}
	from = max(0, from-before).Truncate(tl.Buckets.Width)
	to = min(tl.Run.Duration, max(to, from+before)+after)
	return from, max(to, from+tl.Buckets.Width)
}

// A group is the targets of one kind of one Service, by whatever node.
type group struct {
	label  string
	target model.Target
	series model.BucketSeries
}

// groups adds up the targets of an incident, and the others of their Services.
func (m *moment) groups() []group {
	services := m.asked()
	several := len(m.tl.Run.Services)+len(m.tl.Run.URLs) > 1
	var groups []group
	for _, t := range m.tl.Judged() {
		series, ok := m.tl.Buckets.Of(t.Name)
		if !ok || !slices.Contains(services, t.Receiver()) {
			continue
		}
		label := string(t.Kind)
		if several {
			label = path.Base(t.Receiver()) + " " + label
		}
		if t.Route != "" {
			label += " " + t.Route
		}
		label = m.Say(label)
		i := slices.IndexFunc(groups, func(g group) bool { return g.label == label })
		if i < 0 {
			groups = append(groups, group{label: label, target: t, series: series.Whole()})
			continue
		}
		groups[i].series = plus(groups[i].series, series.Whole())
		groups[i].target.Rate += t.Rate
	}
	return groups
}

// asked returns the Services, or URLs, that the incident's targets send to.
func (m *moment) asked() (services []string) {
	for i := range m.tl.Targets {
		if t := &m.tl.Targets[i]; slices.Contains(m.in.Targets, t.Name) {
			services = append(services, t.Receiver())
		}
	}
	return services
}

// plus adds up what two targets sent; a slot is as unobserved as it was to the one that observed less.
func plus(a, b model.BucketSeries) model.BucketSeries {
	if len(a.Sent) < len(b.Sent) {
		a, b = b, a
	}
	a.Sent, a.Failed, a.Unobserved = slices.Clone(a.Sent), slices.Clone(a.Failed), slices.Clone(a.Unobserved)
	for i := range b.Sent {
		a.Sent[i] += b.Sent[i]
		a.Failed[i] += b.Failed[i]
		a.Unobserved[i] = max(a.Unobserved[i], b.Unobserved[i])
	}
	return a
}

// held returns the held targets of the incident.
func (m *moment) held() []model.Held {
	return slices.DeleteFunc(slices.Clone(m.tl.Held), func(h model.Held) bool {
		return !slices.Contains(m.in.Targets, h.Target)
	})
}

// services returns the watched Services of the incident.
func (m *moment) services() []model.WatchedService {
	names := m.asked()
	return slices.DeleteFunc(m.servicesToShow(), func(s model.WatchedService) bool {
		return s.Name != "" && !slices.Contains(names, s.Name)
	})
}

// pods returns the Pods of which a state began in what is drawn: first those that the cause names, then the others.
func (m *moment) pods() []model.Pod {
	changed, _, _ := podsToShow(m.tl, m.exits)
	changed = slices.DeleteFunc(changed, func(p model.Pod) bool {
		return !slices.ContainsFunc(p.States, func(s model.PodState) bool { return s.Start > m.from && s.Start < m.to })
	})
	named := func(p model.Pod) int {
		if len(m.in.Causes) > 0 && strings.Contains(m.in.Causes[0].Text, p.Name) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(changed, func(a, b model.Pod) int { return named(a) - named(b) })
	return changed[:min(len(changed), mostIncidentPods)]
}
