package chart

import (
	"slices"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// heldRows returns the strips of held targets: which share of the connections was cut, or did not stand, in a cell.
func (c *chart) heldRows(targets []model.Held) (rows []row) {
	for _, h := range targets {
		rows = append(rows, row{c.heldLabel(h), c.heldStrip(h)})
	}
	return rows
}

func (c *chart) heldLabel(h model.Held) string {
	if len(c.tl.Held) == 1 {
		return string(timeline.Held)
	}
	return c.targetLabel(h.Target)
}

func (c *chart) heldStrip(h model.Held) []document.Span {
	away := make([]int, c.cells)
	for i := range away {
		away[i] = h.Connections - h.Stood // these never did
	}
	for _, cut := range h.List {
		if cut.Stopped || cut.Cut.Latest > c.to || cut.Back != nil && cut.Back.Latest < c.from {
			continue
		}
		last := c.cells - 1
		if cut.Back != nil {
			last = c.column(cut.Back.Latest)
		}
		for i := c.column(cut.Cut.Latest); i <= last; i++ {
			away[i]++
		}
	}
	var measured model.Instant
	if i := slices.IndexFunc(c.tl.Targets, func(t model.Target) bool { return t.Name == h.Target }); i >= 0 {
		measured = c.tl.Targets[i].Measured
	}
	cells := make([]document.Span, c.cells)
	for i, n := range away {
		cells[i] = c.glyph(heldLevel(n, h.Connections, c.outside(i, measured)))
	}
	return merge(cells)
}

func heldLevel(away, of int, outside bool) string {
	switch {
	case away > 0 && 2*away >= of:
		return "most"
	case away > 0 && 10*away >= of:
		return "some"
	case away > 0:
		return "few"
	case outside:
		return "none"
	}
	return "ok"
}
