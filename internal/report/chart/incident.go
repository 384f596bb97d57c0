package chart

import (
	"cmp"
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

// Incident draws a run around one of its incidents: the targets by their kind, whatever node they send from, and the
// Pods that changed then.
func Incident(tl *model.Timeline, in *model.Incident, screen document.Screen) document.Section {
	if tl.Buckets.Width <= 0 || tl.Run.Duration <= 0 || tl.Buckets.Len() == 0 {
		return document.Section{}
	}
	screen.Width = min(screen.Width, widestIncident)
	c := newChart(tl, nil, screen)
	c.from, c.to = around(tl, in)
	for _, t := range tl.Judged() {
		if slices.Contains(in.Targets, t.Name) {
			c.targets = append(c.targets, t)
		}
	}
	groups := c.groups(in)
	pods := c.podsOf(in)
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
	c.scale(label)
	c.Width = full
	draw := func() {
		rows := slices.Concat([]row{c.axis()}, c.commandRow())
		for _, g := range groups {
			rows = append(rows, row{g.label, c.strip(g.target, g.series, 0, c.cells-1)})
		}
		rows = slices.Concat(rows, c.heldRowsOf(in), c.endpointRowsOf(in))
		for _, pod := range pods {
			rows = append(rows, row{labels[pod.UID], c.lane(pod)})
		}
		c.draw(rows)
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
func (c *chart) groups(in *model.Incident) []group {
	services := c.servicesIn(in)
	several := len(c.tl.Run.Services)+len(c.tl.Run.URLs) > 1
	var groups []group
	for _, t := range c.tl.Judged() {
		series, ok := c.tl.Buckets.Of(t.Name)
		if !ok || !slices.Contains(services, serviceOf(&t)) {
			continue
		}
		label := string(t.Kind)
		if several {
			label = path.Base(serviceOf(&t)) + " " + label
		}
		if t.Route != "" {
			label += " " + t.Route
		}
		label = c.Say(label)
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

// serviceOf returns the Service, or the URL, that a target sends to: the beginning of its name where it says neither.
func serviceOf(t *model.Target) string {
	name, _, _ := strings.Cut(t.Name, " "+string(t.Kind))
	return cmp.Or(t.Service, name)
}

// servicesIn returns the Services, or URLs, that an incident's targets send to.
func (c *chart) servicesIn(in *model.Incident) (services []string) {
	for i := range c.tl.Targets {
		if t := &c.tl.Targets[i]; slices.Contains(in.Targets, t.Name) {
			services = append(services, serviceOf(t))
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

// heldRowsOf returns the rows of the held targets of an incident.
func (c *chart) heldRowsOf(in *model.Incident) (rows []row) {
	for _, h := range c.tl.Held {
		if slices.Contains(in.Targets, h.Target) {
			rows = append(rows, row{c.heldLabel(h), c.heldStrip(h)})
		}
	}
	return rows
}

// endpointRowsOf returns the rows of the Services of an incident.
func (c *chart) endpointRowsOf(in *model.Incident) []row {
	services := c.servicesIn(in)
	return c.endpointRowsFor(slices.DeleteFunc(c.servicesToShow(), func(s model.WatchedService) bool {
		return s.Name != "" && !slices.Contains(services, s.Name)
	}))
}

// podsOf returns the Pods of which a state began in what is drawn: first those that the cause names, then the others.
func (c *chart) podsOf(in *model.Incident) []model.Pod {
	changed, _, _ := podsToShow(c.tl, c.exits)
	changed = slices.DeleteFunc(changed, func(p model.Pod) bool {
		return !slices.ContainsFunc(p.States, func(s model.PodState) bool { return s.Start > c.from && s.Start < c.to })
	})
	named := func(p model.Pod) int {
		if len(in.Causes) > 0 && strings.Contains(in.Causes[0].Text, p.Name) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(changed, func(a, b model.Pod) int { return named(a) - named(b) })
	return changed[:min(len(changed), mostIncidentPods)]
}
