// Package chart draws a judged run as rows of characters, for a terminal.
package chart

import (
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/internal/report/document"
)

// A chart is the run as rows of cells, each cell a stretch of time.
type chart struct {
	pen
	scale
	tl    *model.Timeline
	names map[string]string   // of targets, short
	label int                 // cells the rows' labels take
	exits []exit              // of containers
	of    map[string][]string // by the UID of a Pod: the Services that it is an endpoint of

	targets        []model.Target // that have a row
	well, unshown  int            // targets without a row: nothing failed, and less than of those that have one
	steady, hidden int            // Pods without a row: nothing happened to them, and too little
}

// A row of a chart.
type row struct {
	label string
	cells []document.Span
}

// widest is how many columns a chart has at most.
const widest = 160

func newChart(tl *model.Timeline, names map[string]string, screen document.Screen) *chart {
	screen.Width = min(screen.Width, widest)
	return &chart{
		pen:   pen{Page: document.NewPage(screen), used: map[string]bool{}},
		scale: scale{to: tl.Run.Duration, run: tl.Run.Duration, bucket: tl.Buckets.Width},
		tl:    tl,
		names: names,
		exits: exitsOf(tl),
		of:    servicesOf(tl),
	}
}

// fitBeside chooses the size of cells, beside labels of a width.
func (c *chart) fitBeside(label int) {
	c.label = label
	c.fit(c.Width - label - 5)
}

// drawing draws on a page, no wider than the chart may be.
func (c *chart) drawing(draw func()) document.Drawing {
	width := c.Width
	return func(p *document.Page) {
		screen := p.Screen
		p.Width = min(p.Width, width)
		c.Page = p
		draw()
		p.Screen = screen
	}
}

func (c *chart) draw(rows []row) {
	for _, r := range rows {
		label := document.Cut(r.label, c.label, c.Ellipsis())
		c.Line(
			slices.Concat([]document.Span{
				{Text: "   "}, {Text: label + strings.Repeat(" ", c.label-document.Columns(label)+2)},
			}, r.cells)...,
		)
	}
}

// axis marks every twentieth cell with its time of day, to a cell or better.
func (c *chart) axis() row {
	layout := "15:04:05"
	switch {
	case c.cell < 100*time.Millisecond:
		layout = "15:04:05.000"
	case c.cell <= time.Second:
		layout = "15:04:05.0"
	}
	var b strings.Builder
	for i := 0; i == 0 || i+len(layout) < c.cells; i += 20 {
		b.WriteString(strings.Repeat(" ", i-b.Len()))
		b.WriteString("|" + c.tl.T0.Add(c.from+time.Duration(i)*c.cell).UTC().Format(layout))
	}
	return row{"UTC", []document.Span{{Text: b.String(), Style: document.Dim}}}
}

// commandRow shows when the wrapped command ran: [ kubectl drain node-b ====]; < and > say that it ran before and
// after what is shown.
func (c *chart) commandRow() []row {
	cmd := c.tl.Run.Command
	if cmd == nil || cmd.Start == nil || *cmd.Start > c.to || cmd.End != nil && *cmd.End < c.from {
		return nil
	}
	begin, from := "<", 0
	if *cmd.Start >= c.from {
		begin, from = "[", c.column(*cmd.Start)
	}
	to, end := c.cells-1, ">"
	if cmd.End != nil && *cmd.End <= c.to {
		to, end = c.column(*cmd.End), "]"
	}
	line := c.Say(strings.Join(cmd.Args, " "))
	if inside := to - from - 3; inside >= min(10, document.Columns(line)) {
		line = document.Cut(line, inside, c.Ellipsis())
		bar := begin + " " + line + " " + strings.Repeat("=", inside-document.Columns(line)) + end
		return []row{{"command", []document.Span{{Text: strings.Repeat(" ", from)}, {Text: bar, Style: document.Cyan}}}}
	}
	bar := begin + strings.Repeat("=", max(to-from-1, 0)) + end
	if before := from - 1; c.cells-to < document.Columns(line) && before > c.cells-to {
		line = document.Cut(line, before, c.Ellipsis())
		return []row{{"command", []document.Span{
			{Text: strings.Repeat(" ", from-1-document.Columns(line)) + line + " "}, {Text: bar, Style: document.Cyan},
		}}}
	}
	return []row{{"command", []document.Span{
		{Text: strings.Repeat(" ", from)}, {Text: bar, Style: document.Cyan}, {Text: " " + line},
	}}}
}
