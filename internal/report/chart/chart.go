// Package chart draws a judged run as rows of characters, for a terminal.
package chart

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// A chart is the run as rows of cells, each cell a stretch of time.
type chart struct {
	*document.Page
	tl    *model.Timeline
	names map[string]string // of targets, short
	from  time.Duration     // the part of the run that is drawn, from the beginning of a bucket
	to    time.Duration
	cell  time.Duration
	slots int // buckets in a cell
	cells int
	label int                 // cells the rows' labels take
	exits []exit              // of containers
	of    map[string][]string // by the UID of a Pod: the Services that it is an endpoint of
	used  map[string]bool     // glyphs drawn, for the legend

	targets        []model.Target // that have a row
	well, unshown  int            // targets without a row: nothing failed, and less than of those that have one
	steady, hidden int            // Pods without a row: nothing happened to them, and too little
}

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

// A row of a chart.
type row struct {
	label string
	cells []document.Span
}

// Section draws a run as text: the wrapped command, what each judged target saw, and what the cluster did at the same
// time. names are short names of targets. Documents leave it out.
func Section(tl *model.Timeline, names map[string]string, screen document.Screen) document.Section {
	if tl.Buckets.Width <= 0 || tl.Run.Duration <= 0 || tl.Buckets.Len() == 0 {
		return document.Section{}
	}
	c := newChart(tl, names, screen)
	c.to = tl.Run.Duration
	var pods []model.Pod
	c.targets, c.well, c.unshown = targetsToShow(tl)
	pods, c.steady, c.hidden = podsToShow(tl, c.exits)
	labels := c.podLabels(pods)
	c.scale(c.labelWidth(slices.Collect(maps.Values(labels))))
	draw := func() {
		rows := slices.Concat([]row{c.axis()}, c.commandRow(), c.targetRows(), c.heldRows(), c.endpointRows())
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

// widest is how many columns a chart has at most.
const widest = 160

func newChart(tl *model.Timeline, names map[string]string, screen document.Screen) *chart {
	screen.Width = min(screen.Width, widest)
	return &chart{
		Page:  document.NewPage(screen),
		tl:    tl,
		names: names,
		exits: exitsOf(tl),
		of:    servicesOf(tl),
		used:  map[string]bool{},
	}
}

// scale chooses the size of cells, beside labels of a width.
func (c *chart) scale(label int) {
	c.label = label
	c.cell, c.cells = cellSize(c.to-c.from, c.tl.Buckets.Width, c.Width-c.label-5)
	c.slots = int(c.cell / c.tl.Buckets.Width)
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
	return min(widest, c.Width/3)
}

// targetLabel returns the label of a target's row.
func (c *chart) targetLabel(target string) string { return c.Say(cmp.Or(c.names[target], target)) }

// niceCells are the cell sizes people can count in.
var niceCells = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// cellSize picks the smallest nice size, a multiple of the buckets' width, at which the run fits into room cells.
func cellSize(run, bucket time.Duration, room int) (size time.Duration, cells int) {
	for _, size := range niceCells {
		if size%bucket == 0 && cellsOf(run, size) <= room {
			return size, cellsOf(run, size)
		}
	}
	size = quantity.Ceil((run+time.Duration(room)-1)/time.Duration(room), bucket)
	return size, cellsOf(run, size)
}

// cellsOf is how many cells a run takes. A rest of less than a tenth of a cell belongs to the last one.
func cellsOf(run, size time.Duration) int {
	cells := int((run + size - 1) / size)
	if rest := run % size; cells > 1 && rest > 0 && rest < size/10 {
		cells--
	}
	return cells
}

// span is the time a cell stands for.
func (c *chart) span(cell int) (from, to time.Duration) {
	from = c.from + time.Duration(cell)*c.cell
	if cell == c.cells-1 {
		return from, c.to
	}
	return from, from + c.cell
}

// total adds up the slots of a cell.
func total[T int | float64](c *chart, series []T, cell int) T {
	first := int(c.from / c.tl.Buckets.Width)
	from := min(first+cell*c.slots, len(series))
	to := min(from+c.slots, len(series))
	if cell == c.cells-1 && c.to == c.tl.Run.Duration {
		to = len(series)
	}
	sum := T(0)
	for _, n := range series[from:to] {
		sum += n
	}
	return sum
}

// column is the cell that holds an instant, the nearest one if it lies outside of what is drawn.
func (c *chart) column(at time.Duration) int {
	return min(max(int((at-c.from)/c.cell), 0), c.cells-1)
}

// axis marks every twentieth cell with its time of day.
func (c *chart) axis() row {
	layout := "15:04:05"
	if c.cell < 50*time.Millisecond {
		layout = "15:04:05.000"
	}
	var b strings.Builder
	for i := 0; i == 0 || i+len(layout) < c.cells; i += 20 {
		b.WriteString(strings.Repeat(" ", i-b.Len()))
		b.WriteString("|" + c.tl.T0.Add(c.from+time.Duration(i)*c.cell).UTC().Format(layout))
	}
	return row{"UTC", []document.Span{{Text: b.String(), Style: document.Dim}}}
}

// commandRow shows when the wrapped command ran: [ kubectl drain node-b ---- ].
func (c *chart) commandRow() []row {
	cmd := c.tl.Run.Command
	if cmd == nil || cmd.Start == nil || *cmd.Start > c.to || cmd.End != nil && *cmd.End < c.from {
		return nil
	}
	from, to, end := c.column(*cmd.Start), c.cells-1, ">"
	if cmd.End != nil && *cmd.End <= c.to {
		to, end = c.column(*cmd.End), "]"
	}
	line := c.Say(strings.Join(cmd.Args, " "))
	if inside := to - from - 3; inside >= min(10, document.Columns(line)) {
		line = document.Cut(line, inside, c.Ellipsis())
		bar := "[ " + line + " " + strings.Repeat("-", inside-document.Columns(line)) + end
		return []row{{"command", []document.Span{{Text: strings.Repeat(" ", from)}, {Text: bar, Style: document.Cyan}}}}
	}
	bar := "[" + strings.Repeat("-", max(to-from-1, 0)) + end
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
	sent, failed := total(c, series.Sent, cell), total(c, series.Failed, cell)
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
	if to-from < whole/2 || sent == 0 && t.Kind.Judged() && t.Rate*(to-from).Seconds() >= 3 {
		return 1 // or three requests were due, and none was sent; the rate of a direct target changes
	}
	unseen := time.Duration(0)
	for _, u := range c.tl.Unobserved {
		if u.Target == t.Name {
			unseen += overlap(from, to, u.Start, u.End)
		}
	}
	inSlots := total(c, series.Unobserved, cell) * float64(c.tl.Buckets.Width)
	return max(float64(unseen), inSlots) / float64(to-from)
}

// overlap is how much of a..b lies in from..to.
func overlap(from, to, a, b time.Duration) time.Duration {
	return max(0, min(to, b)-max(from, a))
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

// glyph draws a level, and notes that the legend must explain it.
func (c *chart) glyph(level string) document.Span {
	c.used[level] = true
	if c.Unicode {
		return document.Span{Text: levels[level].unicode, Style: levels[level].style}
	}
	return document.Span{Text: levels[level].ascii, Style: levels[level].style}
}

// legend explains the glyphs that were drawn, and no others.
func (c *chart) legend() {
	var parts []string
	for _, name := range levelOrder {
		if c.used[name] {
			l := levels[name]
			glyph := l.ascii
			if c.Unicode {
				glyph = l.unicode
			}
			parts = append(parts, glyph+" "+c.Say(l.legend))
		}
	}
	for _, lane := range slices.SortedFunc(maps.Values(lanes), func(a, b laneGlyph) int {
		return cmp.Compare(a.rank, b.rank)
	}) {
		entry := lane.glyph + " " + lane.legend
		if c.used[lane.glyph] && !slices.Contains(parts, entry) {
			parts = append(parts, entry)
		}
	}
	if c.used["endpoints"] {
		text := "endpoints: the fewest ready"
		if c.used["counts"] {
			text += ", a number where it changes"
		}
		parts = append(parts, text)
	}
	c.flow(parts)
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

// flow writes parts side by side, as many to a line as fit.
func (c *chart) flow(parts []string) {
	line := ""
	for _, part := range parts {
		if line != "" && 3+document.Columns(line)+3+document.Columns(part) > c.Width {
			c.Line(document.Span{Text: "   " + line, Style: document.Dim})
			line = ""
		}
		if line != "" {
			line += "   "
		}
		line += part
	}
	c.Line(document.Span{Text: "   " + line, Style: document.Dim})
}
