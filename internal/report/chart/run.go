package chart

import (
	"cmp"
	"maps"
	"slices"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// mostStrips is how many judged targets have a row; of more, those have one of which something failed, the worst first.
const mostStrips = 16

// targetsToShow are the judged targets that have a row, and how many others had no failure, or fewer.
func targetsToShow(tl *model.Timeline) (shown []model.Target, well, unshown int) {
	all := tl.Judged()
	if len(all) <= mostStrips {
		return all, 0, 0
	}
	failed := slices.DeleteFunc(slices.Clone(all), func(t model.Target) bool { return t.Failed == 0 })
	slices.SortStableFunc(failed, func(a, b model.Target) int { return cmp.Compare(b.Failed, a.Failed) })
	shown = failed[:min(len(failed), mostStrips)]
	return shown, len(all) - len(failed), len(failed) - len(shown)
}

// Section draws a run as text: the wrapped command, what each judged target saw, and what the cluster did at the same
// time. names are short names of targets. Documents leave it out.
func Section(tl *model.Timeline, names map[string]string, screen document.Screen) document.Section {
	if tl.Buckets.Width <= 0 || tl.Run.Duration <= 0 || tl.Buckets.Len() == 0 {
		return document.Section{}
	}
	c := newChart(tl, names, screen)
	var pods []model.Pod
	c.targets, c.well, c.unshown = targetsToShow(tl)
	pods, c.steady, c.hidden = podsToShow(tl, c.exits)
	labels := c.podLabels(pods)
	c.fitBeside(c.labelWidth(slices.Collect(maps.Values(labels))))
	draw := func() {
		rows := slices.Concat([]row{c.axis()}, c.commandRow(), c.targetRows())
		rows = slices.Concat(rows, c.heldRows(tl.Held), c.planeRows(), c.endpointRows(c.servicesToShow()))
		for _, pod := range pods {
			rows = append(rows, c.podRows(pod, labels[pod.UID])...)
		}
		c.draw(rows)
		c.legend()
		c.remarks()
	}
	return document.Section{
		Title:  "timeline",
		Remark: "one cell = " + quantity.Span(min(c.cell, tl.Run.Duration)),
		Blocks: []document.Block{c.drawing(draw)},
	}
}

// labelWidth is what the labels need, up to a third of the screen.
func (c *chart) labelWidth(labels []string) int {
	widest := len("endpoints")
	names := endpointNames(c.tl)
	for _, s := range c.servicesToShow() {
		widest = max(widest, document.Columns(c.Say(names[s.Name])))
	}
	for _, t := range c.targets {
		widest = max(widest, document.Columns(c.targetLabel(t.Name)))
	}
	for _, l := range labels {
		widest = max(widest, document.Columns(l))
	}
	for _, h := range c.tl.Held {
		widest = max(widest, document.Columns(c.heldLabel(h)))
	}
	for _, t := range c.tl.Targets {
		if t.Kind == timeline.Direct {
			widest = max(widest, document.Columns(c.directLabel(t)))
		}
	}
	if c.tl.ControlPlane != nil {
		for _, s := range c.tl.ControlPlane.Servers {
			widest = max(widest, document.Columns(c.planeLabel(s.Addr)))
		}
	}
	return min(widest, c.Width/3)
}

// targetRows are the judged targets' strips.
func (c *chart) targetRows() []row {
	var rows []row
	for _, t := range c.targets {
		if series, ok := c.tl.Buckets.Of(t.Name); ok {
			rows = append(rows, row{c.targetLabel(t.Name), c.strip(t, series, 0, c.cells-1)})
		}
	}
	return rows
}

// remarks says below the chart what it does not draw.
func (c *chart) remarks() {
	for _, line := range exitLines(c.exits) {
		c.Line(c.Page.Span("   "+line, document.Normal))
	}
	if c.well > 0 {
		c.Line(c.Page.Span("   "+quantity.Count(c.well, "more target")+" without a failure", document.Dim))
	}
	if c.unshown > 0 {
		c.Line(c.Page.Span(
			"   "+quantity.Count(c.unshown, "more target")+" with fewer failures: see timeline.json", document.Dim,
		))
	}
	if c.steady > 0 {
		c.Line(c.Page.Span("   "+quantity.Count(c.steady, "more Pod")+" ready all the time", document.Dim))
	}
	if c.hidden > 0 {
		c.Line(
			c.Page.Span("   "+quantity.Count(c.hidden, "more Pod")+" changed, less: see timeline.json", document.Dim),
		)
	}
}
