package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate"
	"lapse/timeline"
)

// maxPods is how many Pods' lanes are drawn at most.
const maxPods = 12

// A chart is the run as rows of cells, each cell a stretch of time.
type chart struct {
	*page
	tl    *correlate.Timeline
	cell  time.Duration
	slots int // buckets in a cell
	cells int
	label int             // cells the rows' labels take
	used  map[string]bool // glyphs drawn, for the legend
}

// A row of a chart.
type row struct {
	label string
	cells []span
}

// strips draws the run as text: the wrapped command, what each judged target saw, and what the
// cluster did at the same time.
func strips(p *page, tl *correlate.Timeline) {
	if tl.Buckets.Width <= 0 || tl.Run.Duration <= 0 || len(tl.Buckets.Targets) == 0 {
		return
	}
	pods, steady := podsToShow(tl)
	c := &chart{page: p, tl: tl, used: map[string]bool{}}
	labels := c.podLabels(pods)
	c.label = c.labelWidth(slices.Collect(maps.Values(labels)))
	c.cell, c.cells = cellSize(tl.Run.Duration, tl.Buckets.Width, p.Width-c.label-5)
	c.slots = int(c.cell / tl.Buckets.Width)

	rows := []row{c.axis()}
	rows = append(rows, c.commandRow()...)
	rows = append(rows, c.targetRows()...)
	rows = append(rows, c.endpointRow()...)
	for _, pod := range pods {
		rows = append(rows, c.podRows(pod, labels[pod.UID])...)
	}
	p.WriteByte('\n')
	p.heading("TIMELINE", "one cell = "+FormatDuration(c.cell))
	for _, r := range rows {
		label := cut(r.label, c.label, p.ellipsis())
		p.line(slices.Concat([]span{{"   ", normal}, {label + strings.Repeat(" ", c.label-columns(label)+2), normal}}, r.cells)...)
	}
	c.legend(steady, len(changed(tl))-len(pods))
}

// labelWidth is what the labels need, up to a third of the screen.
func (c *chart) labelWidth(labels []string) int {
	widest := len("endpoints")
	for _, name := range c.names() {
		widest = max(widest, columns(name))
	}
	for _, l := range labels {
		widest = max(widest, columns(l))
	}
	return min(widest, c.Width/3)
}

// names are the labels of the judged targets.
func (c *chart) names() map[string]string {
	all := targetNames(c.page, c.tl)
	names := map[string]string{}
	for _, t := range judged(c.tl) {
		names[t.Name] = all[t.Name]
	}
	return names
}

// niceCells are the cell sizes people can count in.
var niceCells = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
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
	size = ceilTo((run+time.Duration(room)-1)/time.Duration(room), bucket)
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
	from = time.Duration(cell) * c.cell
	if cell == c.cells-1 {
		return from, c.tl.Run.Duration
	}
	return from, from + c.cell
}

// total adds up the slots of a cell.
func total[T int | float64](c *chart, series []T, cell int) T {
	from := min(cell*c.slots, len(series))
	to := min(from+c.slots, len(series))
	if cell == c.cells-1 {
		to = len(series)
	}
	return sum(series[from:to], func(n T) T { return n })
}

// column is the cell that holds an instant, the nearest one if it lies outside the run.
func (c *chart) column(at time.Duration) int {
	return min(max(int(at/c.cell), 0), c.cells-1)
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
		b.WriteString("|" + wallClock(c.tl, time.Duration(i)*c.cell, layout))
	}
	return row{"UTC", []span{{b.String(), dim}}}
}

// commandRow shows when the wrapped command ran: [ kubectl drain node-b ---- ].
func (c *chart) commandRow() []row {
	cmd := c.tl.Run.Command
	if cmd == nil || cmd.Start == nil {
		return nil
	}
	from, to, end := c.column(*cmd.Start), c.cells-1, ">"
	if cmd.End != nil {
		to, end = c.column(*cmd.End), "]"
	}
	line := c.say(strings.Join(cmd.Args, " "))
	if inside := to - from - 3; inside >= min(10, columns(line)) {
		line = cut(line, inside, c.ellipsis())
		bar := "[ " + line + " " + strings.Repeat("-", inside-columns(line)) + end
		return []row{{"command", []span{{strings.Repeat(" ", from), normal}, {bar, cyan}}}}
	}
	bar := "[" + strings.Repeat("-", max(to-from-1, 0)) + end
	if before := from - 1; c.cells-to < columns(line) && before > c.cells-to {
		line = cut(line, before, c.ellipsis())
		return []row{{"command", []span{{strings.Repeat(" ", from-1-columns(line)) + line + " ", normal}, {bar, cyan}}}}
	}
	return []row{{"command", []span{{strings.Repeat(" ", from), normal}, {bar, cyan}, {" " + line, normal}}}}
}

// A level says how a cell of a target's strip went.
type level struct {
	ascii, unicode string
	style          style
	legend         string
}

var levels = map[string]level{
	"ok":   {".", "·", normal, "ok"},
	"few":  {":", "░", red, "<10%"},
	"some": {"%", "▒", red, "<50%"},
	"most": {"#", "█", redBold, "≥50% failed"},
	"gaps": {",", "╌", yellow, "ok, with gaps"},
	"none": {"'", "╱", yellow, "no data"},
}

var levelOrder = []string{"ok", "few", "some", "most", "gaps", "none"}

// targetRows are the judged targets' strips.
func (c *chart) targetRows() []row {
	var rows []row
	names := c.names()
	for _, t := range judged(c.tl) {
		if series, ok := c.tl.Buckets.Targets[t.Name]; ok {
			rows = append(rows, row{names[t.Name], c.strip(t, series, 0, c.cells-1)})
		}
	}
	return rows
}

// strip draws the cells from..to of a target; what lies outside was not meant to be measured.
func (c *chart) strip(t correlate.Target, series correlate.BucketSeries, from, to int) []span {
	cells := make([]span, 0, c.cells)
	for i := range c.cells {
		if i < from || i > to {
			cells = append(cells, span{" ", normal})
			continue
		}
		cells = append(cells, c.glyph(c.level(t, series, i)))
	}
	return merge(cells)
}

// level judges one cell. Failures are shown above all; a cell that was not wholly observed is never
// shown as ok.
func (c *chart) level(t correlate.Target, series correlate.BucketSeries, cell int) string {
	sent, failed := total(c, series.Sent, cell), total(c, series.Failed, cell)
	dark := c.dark(t, series, cell, sent)
	switch {
	case failed > 0 && failed*2 >= sent:
		return "most"
	case failed > 0 && failed*10 >= sent:
		return "some"
	case failed > 0:
		return "few"
	case dark >= 0.5:
		return "none"
	case dark > 1-correlate.MinCoverage:
		return "gaps"
	default:
		return "ok"
	}
}

// dark is the share of a cell in which the target should have been observed and was not; 1 if all of
// the cell, or the most of it, lies outside its measuring.
func (c *chart) dark(t correlate.Target, series correlate.BucketSeries, cell, sent int) float64 {
	from, to := c.span(cell)
	whole := to - from
	from, to = max(from, t.Measured.Earliest), min(to, cmp.Or(t.Measured.Latest, to))
	if to-from < whole/2 || sent == 0 && t.Rate*(to-from).Seconds() >= 3 {
		return 1 // or three requests were due, and none was sent
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
func merge(cells []span) []span {
	var merged []span
	for _, cell := range cells {
		if last := len(merged) - 1; last >= 0 && merged[last].style == cell.style {
			merged[last].text += cell.text
			continue
		}
		merged = append(merged, cell)
	}
	return merged
}

// endpointRow counts the ready endpoints of a single Service, the fewest within each cell, as the
// API server showed them.
func (c *chart) endpointRow() []row {
	if len(c.tl.Run.Services) != 1 {
		return nil // an endpoint does not say which Service it belongs to
	}
	fewest, most := readyCounts(c.tl.Events, c)
	if most < 1 || most > 9 {
		return nil
	}
	cells := make([]span, c.cells)
	for i, n := range fewest {
		cells[i] = span{"'", yellow}
		switch {
		case c.unwatched("EndpointSlice", i):
			cells[i] = c.glyph("none")
		case n == 0:
			cells[i] = span{"0", redBold}
		case n > 0:
			cells[i] = span{fmt.Sprint(n), normal}
		}
	}
	c.used["endpoints"] = true
	return []row{{"endpoints", merge(cells)}}
}

// readyCounts are the fewest ready endpoints in each cell, -1 before any was heard of, and the most
// there ever were.
func readyCounts(events []correlate.Event, c *chart) (fewest []int, most int) {
	fewest = slices.Repeat([]int{-1}, c.cells)
	endpoints, now, column := readiness{}, -1, 0
	for _, e := range events {
		if !endpoints.hear(e) {
			continue
		}
		for ; column < c.column(e.Seen); column++ {
			settle(fewest, column, now)
		}
		before := now
		now = endpoints.ready()
		if before > now {
			settle(fewest, column, now)
		}
		most = max(most, now)
	}
	for ; column < c.cells; column++ {
		settle(fewest, column, now)
	}
	return fewest, most
}

// readiness is which endpoints are ready, as far as the API server told.
type readiness map[string]bool

// hear reports whether the event was about an endpoint.
func (r readiness) hear(e correlate.Event) bool {
	if e.Kind != timeline.EndpointChanged {
		return false
	}
	key := e.Addr
	if e.Object != nil {
		key += " " + e.Object.UID
	}
	r[key] = e.To == timeline.EndpointReady
	return true
}

func (r readiness) ready() int {
	return count(slices.Collect(maps.Values(r)), func(ready bool) bool { return ready })
}

// settle notes that there were now ready endpoints at some time in a cell.
func settle(fewest []int, column, now int) {
	if fewest[column] < 0 || now < fewest[column] {
		fewest[column] = now
	}
}

// laneGlyph draws a state of a Pod; the one of highest rank in a cell is shown, so that a short
// state is not lost in a long cell.
type laneGlyph struct {
	glyph, legend string
	rank          int
	style         style
}

var lanes = map[string]laneGlyph{
	"gone":                {"-", "gone", 1, dim},
	"ready":               {"R", "ready", 2, green},
	"pending":             {"p", "pending or creating", 3, yellow},
	"creating":            {"p", "pending or creating", 3, yellow},
	"running":             {"n", "running, not ready", 4, yellow},
	"terminating+serving": {"s", "terminating+serving", 5, cyan},
	"terminating":         {"T", "terminating", 6, red},
	"crashed":             {"X", "crashed", 7, redBold},
}

// podRows are a Pod's lane and, if its own address failed while it was measured, what that showed.
func (c *chart) podRows(pod correlate.Pod, label string) []row {
	rows := []row{{label, c.lane(pod.States)}}
	for _, t := range c.tl.Targets {
		series, ok := c.tl.Buckets.Targets[t.Name]
		if ok && t.Kind == timeline.Direct && t.PodUID == pod.UID && t.Failed > 0 {
			rows = append(rows, row{"  direct", c.strip(t, series, c.column(t.Measured.Earliest), c.column(t.Measured.Latest))})
		}
	}
	return rows
}

func (c *chart) lane(states []correlate.PodState) []span {
	cells := slices.Repeat([]span{{" ", normal}}, c.cells)
	ranks := make([]int, c.cells)
	for i, s := range states {
		lane, ok := lanes[s.State]
		if !ok || s.Start >= c.tl.Run.Duration {
			continue
		}
		end := c.cells - 1
		if i+1 < len(states) {
			end = c.column(max(states[i+1].Start-1, s.Start))
		}
		for column := c.column(s.Start); column <= end; column++ {
			if lane.rank > ranks[column] {
				ranks[column], cells[column] = lane.rank, span{lane.glyph, lane.style}
			}
		}
	}
	for column, cell := range cells {
		if ranks[column] > 0 && c.unwatched("Pod", column) {
			cells[column] = c.glyph("none")
			continue
		}
		c.used[cell.text] = true
	}
	return merge(cells)
}

// unwatched reports whether changes to objects of a kind may have been missed in half of a cell or more.
func (c *chart) unwatched(kind string, cell int) bool {
	from, to := c.span(cell)
	gap := time.Duration(0)
	for _, e := range c.tl.Events {
		if e.Kind == timeline.WatchGap && e.Object != nil && e.Object.Kind == kind {
			gap += overlap(from, to, e.At.Earliest, e.At.Latest)
		}
	}
	return gap*2 >= to-from
}

// glyph draws a level, and notes that the legend must explain it.
func (c *chart) glyph(level string) span {
	c.used[level] = true
	if c.Unicode {
		return span{levels[level].unicode, levels[level].style}
	}
	return span{levels[level].ascii, levels[level].style}
}

// podsToShow are the first Pods that changed during the run, and how many there were that did not.
func podsToShow(tl *correlate.Timeline) (pods []correlate.Pod, steady int) {
	pods = changed(tl)
	steady = count(tl.Pods, func(p correlate.Pod) bool { return len(p.States) == 1 }) - count(pods, func(p correlate.Pod) bool { return len(p.States) == 1 })
	return pods[:min(len(pods), maxPods)], steady
}

// changed are the Pods that were not the same all the time, in the order of their first change.
func changed(tl *correlate.Timeline) []correlate.Pod {
	pods := slices.DeleteFunc(slices.Clone(tl.Pods), func(p correlate.Pod) bool {
		return len(p.States) == 0 || len(p.States) == 1 && p.States[0].State == "ready" && p.States[0].Start < tl.Buckets.Width
	})
	slices.SortStableFunc(pods, func(a, b correlate.Pod) int { return cmp.Compare(firstChange(a), firstChange(b)) })
	return pods
}

func firstChange(p correlate.Pod) time.Duration {
	if len(p.States) > 1 {
		return p.States[1].Start
	}
	return p.States[0].Start
}

// podLabels are names short enough for a lane: the last part of the Pod's name, where that tells it
// from the others, and its node.
func (c *chart) podLabels(pods []correlate.Pod) map[string]string {
	short := map[string]int{}
	for _, p := range c.tl.Pods {
		short[lastPart(p.Name)]++
	}
	labels := map[string]string{}
	for _, p := range pods {
		name := lastPart(p.Name)
		if short[name] > 1 {
			name = p.Name
		}
		labels[p.UID] = strings.TrimSpace("pod " + cut(c.say(name), 20, c.ellipsis()) + "  " + c.say(p.Node))
	}
	return labels
}

// lastPart is what the cluster added to the name at random, if it looks so.
func lastPart(name string) string {
	if part := name[strings.LastIndexByte(name, '-')+1:]; len(part) >= 4 {
		return part
	}
	return name
}

// legend explains the glyphs that were drawn, and no others.
func (c *chart) legend(steady, hidden int) {
	var parts []string
	for _, name := range levelOrder {
		if c.used[name] {
			l := levels[name]
			glyph := l.ascii
			if c.Unicode {
				glyph = l.unicode
			}
			parts = append(parts, glyph+" "+c.say(l.legend))
		}
	}
	for _, lane := range slices.SortedFunc(maps.Values(lanes), func(a, b laneGlyph) int { return cmp.Compare(a.rank, b.rank) }) {
		entry := lane.glyph + " " + lane.legend
		if c.used[lane.glyph] && !slices.Contains(parts, entry) {
			parts = append(parts, entry)
		}
	}
	if c.used["endpoints"] {
		parts = append(parts, "endpoints: the fewest ready")
	}
	c.flow(parts)
	if steady > 0 {
		c.line(c.page.span("   "+plural(steady, "more Pod")+" ready all the time", dim))
	}
	if hidden > 0 {
		c.line(c.page.span("   "+plural(hidden, "more Pod")+" changed: see timeline.json", dim))
	}
}

// flow writes parts side by side, as many to a line as fit.
func (c *chart) flow(parts []string) {
	line := ""
	for _, part := range parts {
		if line != "" && 3+columns(line)+3+columns(part) > c.Width {
			c.line(span{"   " + line, dim})
			line = ""
		}
		if line != "" {
			line += "   "
		}
		line += part
	}
	c.line(span{"   " + line, dim})
}
