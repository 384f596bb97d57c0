package chart

import (
	"cmp"
	"maps"
	"slices"

	"lapse/internal/report/document"
)

// A level says how a cell of a target's strip went.
type level struct {
	ascii, unicode string
	style          document.Style
	legend         string
}

var levels = map[string]level{
	"ok":   {".", "·", document.Normal, "ok"},
	"few":  {":", "░", document.Red, "<10 %"},
	"some": {"%", "▒", document.Red, "<50 %"},
	"most": {"#", "█", document.RedBold, "≥50 % failed"},
	"gaps": {",", "╌", document.Yellow, "ok, with gaps"},
	"none": {"'", "╱", document.Yellow, "no data"},
}

var levelOrder = []string{"ok", "few", "some", "most", "gaps", "none"}

// laneGlyph draws a state of a Pod; the one of highest rank in a cell is shown, so that a short
// state is not lost in a long cell.
type laneGlyph struct {
	glyph, legend string
	rank          int
	style         document.Style
}

var lanes = map[string]laneGlyph{
	"gone":                {"-", "gone", 1, document.Dim},
	unselected:            {"o", "no longer selected", 1, document.Dim},
	"ready":               {"R", "ready", 2, document.Green},
	"pending":             {"p", "pending or creating", 3, document.Yellow},
	"creating":            {"p", "pending or creating", 3, document.Yellow},
	"running":             {"n", "running, not ready", 4, document.Yellow},
	"terminating+serving": {"s", "terminating+serving", 5, document.Cyan},
	"terminating":         {"T", "terminating", 6, document.Red},
	"crashed":             {"X", "exited, or waiting to be restarted", 7, document.RedBold},
}

// unselected is the state of a Pod that is gone only for the Services of the run: it may live on.
const unselected = "no longer selected"

// A pen draws glyphs on a page, and the legend of those it has drawn.
type pen struct {
	*document.Page
	used map[string]bool // glyphs drawn, for the legend
}

// glyph draws a level, and notes that the legend must explain it.
func (p *pen) glyph(level string) document.Span {
	p.used[level] = true
	if p.Unicode {
		return document.Span{Text: levels[level].unicode, Style: levels[level].style}
	}
	return document.Span{Text: levels[level].ascii, Style: levels[level].style}
}

// legend explains the glyphs that were drawn, and no others.
func (p *pen) legend() {
	var parts []string
	for _, name := range levelOrder {
		if p.used[name] {
			l := levels[name]
			glyph := l.ascii
			if p.Unicode {
				glyph = l.unicode
			}
			parts = append(parts, glyph+" "+p.Say(l.legend))
		}
	}
	for _, lane := range slices.SortedFunc(maps.Values(lanes), func(a, b laneGlyph) int {
		return cmp.Compare(a.rank, b.rank)
	}) {
		entry := lane.glyph + " " + lane.legend
		if p.used[lane.glyph] && !slices.Contains(parts, entry) {
			parts = append(parts, entry)
		}
	}
	if p.used["endpoints"] {
		text := "endpoints: the fewest ready"
		if p.used["counts"] {
			text += ", a number where it changes"
		}
		parts = append(parts, text)
	}
	p.flow(parts)
}

// flow writes parts side by side, as many to a line as fit.
func (p *pen) flow(parts []string) {
	line := ""
	for _, part := range parts {
		if line != "" && 3+document.Columns(line)+3+document.Columns(part) > p.Width {
			p.Line(document.Span{Text: "   " + line, Style: document.Dim})
			line = ""
		}
		if line != "" {
			line += "   "
		}
		line += part
	}
	p.Line(document.Span{Text: "   " + line, Style: document.Dim})
}

// merge joins neighbours of the same style.
func merge(cells []document.Span) []document.Span {
	var merged []document.Span
	for _, cell := range cells {
		if last := len(merged) - 1; last >= 0 && merged[last].Style == cell.Style {
			merged[last].Text += cell.Text
			continue
		}
		merged = append(merged, cell)
	}
	return merged
}
