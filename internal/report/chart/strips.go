package chart

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// targetLabel returns the label of a target's row.
func (c *chart) targetLabel(target string) string { return c.Say(cmp.Or(c.names[target], target)) }

// strip draws the cells from..to of a target; what lies outside was not meant to be measured.
func (c *chart) strip(t model.Target, series model.BucketSeries, from, to int) []document.Span {
	cells := make([]document.Span, 0, c.cells)
	for i := range c.cells {
		if i < from || i > to {
			cells = append(cells, document.Span{Text: " "})
			continue
		}
		cells = append(cells, c.glyph(c.level(t, series, i)))
	}
	return merge(cells)
}

// level judges one cell. Failures are shown above all; a cell that was not wholly observed is never
// shown as ok.
func (c *chart) level(t model.Target, series model.BucketSeries, cell int) string {
	sent, failed := total(&c.scale, series.Sent, cell), total(&c.scale, series.Failed, cell)
	unobserved := c.unobserved(t, series, cell, sent)
	switch {
	case failed > 0 && failed*2 >= sent:
		return "most"
	case failed > 0 && failed*10 >= sent:
		return "some"
	case failed > 0:
		return "few"
	case unobserved >= 0.5:
		return "none"
	case unobserved > 1-model.MinCoverage:
		return "gaps"
	default:
		return "ok"
	}
}

// unobserved is the share of a cell in which the target should have been observed and was not; 1 if all of
// the cell, or the most of it, lies outside its measuring.
func (c *chart) unobserved(t model.Target, series model.BucketSeries, cell, sent int) float64 {
	from, to := c.span(cell)
	whole := to - from
	from, to = max(from, t.Measured.Earliest), min(to, cmp.Or(t.Measured.Latest, to))
	if to-from < whole/2 || sent == 0 && t.Kind.Judged() && t.RateAt(from)*(to-from).Seconds() >= 3 {
		return 1 // or three requests were due, and none was sent; the rate of a direct target changes
	}
	unseen := time.Duration(0)
	for _, u := range c.tl.Unobserved {
		if u.Target == t.Name {
			unseen += overlap(from, to, u.Start, u.End)
		}
	}
	inSlots := total(&c.scale, series.Unobserved, cell) * float64(c.tl.Buckets.Width)
	return max(float64(unseen), inSlots) / float64(to-from)
}

// unwatched reports whether changes to objects of a kind that belong to one of these Services may have been missed in
// half of a cell or more. What no Service is known of may belong to every one in its namespace.
func (c *chart) unwatched(kind string, cell int, services []string, namespace string) bool {
	from, to := c.span(cell)
	gap := time.Duration(0)
	concerns := func(named string) bool {
		return slices.Contains(services, named) || len(services) == 0 && strings.HasPrefix(named, namespace+"/")
	}
	for _, e := range c.tl.Events {
		if e.Kind == timeline.WatchGap && (e.Object.Kind == "" || e.Object.Kind == kind) &&
			(len(e.Services) == 0 || slices.ContainsFunc(e.Services, concerns)) {
			gap += overlap(from, to, e.At.Earliest, e.At.Latest)
		}
	}
	return gap*2 >= to-from
}
