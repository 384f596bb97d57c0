package report

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// maxPods is how many Pods' lanes are drawn at most.
const maxPods = 12

// A chart is the run as rows of cells, each cell a stretch of time.
type chart struct {
	*page
	tl    *model.Timeline
	cell  time.Duration
	slots int // buckets in a cell
	cells int
	label int                 // cells the rows' labels take
	exits []exit              // of containers
	of    map[string][]string // by the UID of a Pod: the Services that it is an endpoint of
	used  map[string]bool     // glyphs drawn, for the legend

	steady, hidden int // Pods without a row: nothing happened to them, and too little
}

// A row of a chart.
type row struct {
	label string
	cells []span
}

// stripsSection draws the run as text: the wrapped command, what each judged target saw, and what the
// cluster did at the same time. Documents leave it out.
func stripsSection(v *view) section {
	if v.Buckets.Width <= 0 || v.Run.Duration <= 0 || len(v.Buckets.Targets) == 0 {
		return section{}
	}
	c := &chart{page: newPage(v.Options), tl: v.Timeline, exits: exitsOf(v.Timeline), of: servicesOf(v.Timeline), used: map[string]bool{}}
	var pods []model.Pod
	pods, c.steady, c.hidden = podsToShow(v.Timeline, c.exits)
	labels := c.podLabels(pods)
	c.label = c.labelWidth(slices.Collect(maps.Values(labels)))
	c.cell, c.cells = cellSize(v.Run.Duration, v.Buckets.Width, c.Width-c.label-5)
	c.slots = int(c.cell / v.Buckets.Width)
	draw := func(p *page) {
		c.page = p
		rows := slices.Concat([]row{c.axis()}, c.commandRow(), c.targetRows(), c.endpointRows())
		for _, pod := range pods {
			rows = append(rows, c.podRows(pod, labels[pod.UID])...)
		}
		c.draw(rows)
	}
	return section{title: "timeline", remark: "one cell = " + quantity.Span(min(c.cell, v.Run.Duration)), blocks: []block{drawing(draw)}}
}

func (c *chart) draw(rows []row) {
	for _, r := range rows {
		label := cut(r.label, c.label, c.ellipsis())
		c.line(slices.Concat([]span{{"   ", normal}, {label + strings.Repeat(" ", c.label-columns(label)+2), normal}}, r.cells)...)
	}
	c.legend()
}

// labelWidth is what the labels need, up to a third of the screen.
func (c *chart) labelWidth(labels []string) int {
	widest := len("endpoints")
	for _, name := range endpointNames(c.tl) {
		widest = max(widest, columns(c.say(name)))
	}
	for _, name := range c.names() {
		widest = max(widest, columns(name))
	}
	for _, l := range labels {
		widest = max(widest, columns(l))
	}
	for _, t := range c.tl.Targets {
		if t.Kind == timeline.Direct {
			widest = max(widest, columns(c.directLabel(t)))
		}
	}
	return min(widest, c.Width/3)
}

// names are the labels of the judged targets.
func (c *chart) names() map[string]string {
	all := targetNames(c.tl, c.nameWidth())
	names := map[string]string{}
	for _, t := range judged(c.tl) {
		names[t.Name] = c.say(all[t.Name])
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
	"few":  {":", "░", red, "<10 %"},
	"some": {"%", "▒", red, "<50 %"},
	"most": {"#", "█", redBold, "≥50 % failed"},
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
func (c *chart) strip(t model.Target, series model.BucketSeries, from, to int) []span {
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
func (c *chart) level(t model.Target, series model.BucketSeries, cell int) string {
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
	case dark > 1-model.MinCoverage:
		return "gaps"
	default:
		return "ok"
	}
}

// dark is the share of a cell in which the target should have been observed and was not; 1 if all of
// the cell, or the most of it, lies outside its measuring.
func (c *chart) dark(t model.Target, series model.BucketSeries, cell, sent int) float64 {
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

// endpointRows count the ready endpoints of each Service, the fewest within each cell, as the API
// server showed them.
func (c *chart) endpointRows() []row {
	var rows []row
	names := endpointNames(c.tl)
	for _, service := range slices.SortedFunc(slices.Values(c.tl.Services), func(a, b model.WatchedService) int { return cmp.Compare(a.Name, b.Name) }) {
		fewest, most := readyCounts(service, c)
		if most < 1 {
			continue
		}
		c.used["endpoints"] = true
		if most > 9 {
			c.used["counts"] = true
			rows = append(rows, row{c.say(names[service.Name]), merge(c.counts(service.Name, fewest))})
			continue
		}
		rows = append(rows, row{c.say(names[service.Name]), merge(c.digits(service.Name, fewest))})
	}
	return rows
}

// endpointNames are the rows' labels, by the name of their Service.
func endpointNames(tl *model.Timeline) map[string]string {
	names, short := map[string]string{}, map[string]int{}
	for _, service := range tl.Services {
		short[path.Base(service.Name)]++
	}
	for _, service := range tl.Services {
		name := path.Base(service.Name)
		switch {
		case len(tl.Services) == 1:
			name = ""
		case short[name] > 1:
			name = service.Name
		}
		names[service.Name] = strings.TrimSpace("endpoints " + name)
	}
	return names
}

// digits writes a number below ten into each cell.
func (c *chart) digits(service string, fewest []int) []span {
	cells := make([]span, c.cells)
	for i, n := range fewest {
		switch {
		case n < 0, c.unwatched("EndpointSlice", i, []string{service}, ""):
			cells[i] = c.glyph("none")
		default:
			cells[i] = countSpan(fmt.Sprint(n))
		}
	}
	return cells
}

// counts writes numbers of any size where they change, and a line until the next: 12----9--12----. A number is the fewest within
// the cells that it takes, with the one that parts it from the next.
func (c *chart) counts(service string, fewest []int) []span {
	cells := make([]span, c.cells)
	shown := -1
	for i := 0; i < c.cells; {
		switch {
		case fewest[i] < 0, c.unwatched("EndpointSlice", i, []string{service}, ""):
			cells[i], shown = c.glyph("none"), -1
			i++
		case fewest[i] == shown:
			cells[i] = span{"-", dim}
			i++
		default:
			end := min(i+len(fmt.Sprint(fewest[i]))+1, c.cells)
			shown = slices.Min(slices.DeleteFunc(slices.Clone(fewest[i:end]), func(n int) bool { return n < 0 }))
			text := fmt.Sprint(shown)
			for j := range end - i {
				cells[i+j] = span{"-", dim}
			}
			for j := range text { // at the edge, in the cells before it
				cells[min(i, max(0, c.cells-len(text)))+j] = countSpan(text[j : j+1])
			}
			i = end
		}
	}
	return cells
}

// countSpan is a digit of a count of endpoints. None is bad.
func countSpan(text string) span {
	if text == "0" {
		return span{text, redBold}
	}
	return span{text, normal}
}

// readyCounts are the fewest ready endpoints of a Service in each cell, -1 before any was seen, and the most there ever were.
func readyCounts(service model.WatchedService, c *chart) (fewest []int, most int) {
	fewest = slices.Repeat([]int{-1}, c.cells)
	now, column := -1, 0
	for _, step := range service.Endpoints {
		for ; column < c.column(step.At.Latest); column++ {
			settle(fewest, column, now)
		}
		if step.Ready < now {
			settle(fewest, column, step.Ready)
		}
		now = step.Ready
		most = max(most, now)
	}
	for ; column < c.cells; column++ {
		settle(fewest, column, now)
	}
	return fewest, most
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
	"crashed":             {"X", "exited, or waiting to be restarted", 7, redBold},
}

// podRows are a Pod's lane and, if its own address failed while it was measured, what that showed.
func (c *chart) podRows(pod model.Pod, label string) []row {
	rows := []row{{label, c.lane(pod)}}
	for _, t := range c.tl.Targets {
		series, ok := c.tl.Buckets.Targets[t.Name]
		if ok && t.Kind == timeline.Direct && t.PodUID == pod.UID && t.Failed > 0 {
			rows = append(rows, row{c.directLabel(t), c.strip(t, series.Whole(), c.column(t.Measured.Earliest), c.column(t.Measured.Latest))})
		}
	}
	return rows
}

// directLabel names a target at a Pod's own address below the Pod's row; with its port where the Pod has several such targets.
func (c *chart) directLabel(t model.Target) string {
	label := "  direct"
	several := count(c.tl.Targets, func(o model.Target) bool { return o.Kind == timeline.Direct && o.PodUID == t.PodUID }) > 1
	if addr, err := netip.ParseAddrPort(t.Addr); several && err == nil {
		label += fmt.Sprintf(" :%d", addr.Port())
	}
	return label
}

// lane draws a Pod's states, and where a container of it exited while it was not to end.
func (c *chart) lane(pod model.Pod) []span {
	states := pod.States
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
	for _, exit := range c.exits {
		if exit.uid == pod.UID && !exit.ending && exit.at < c.tl.Run.Duration {
			column := c.column(exit.at)
			ranks[column], cells[column] = lanes["crashed"].rank, span{lanes["crashed"].glyph, lanes["crashed"].style}
		}
	}
	for column, cell := range cells {
		if ranks[column] > 0 && c.unwatched("Pod", column, c.of[pod.UID], pod.Namespace) {
			cells[column] = c.glyph("none")
			continue
		}
		c.used[cell.text] = true
	}
	return merge(cells)
}

// unwatched reports whether changes to objects of a kind that belong to one of these Services may have been missed in half of a cell or
// more. What no Service is known of may belong to every one in its namespace.
func (c *chart) unwatched(kind string, cell int, services []string, namespace string) bool {
	from, to := c.span(cell)
	gap := time.Duration(0)
	concerns := func(named string) bool {
		return slices.Contains(services, named) || len(services) == 0 && strings.HasPrefix(named, namespace+"/")
	}
	for _, e := range c.tl.Events {
		if e.Kind == timeline.WatchGap && (e.Object == nil || e.Object.Kind == "" || e.Object.Kind == kind) && (len(e.Services) == 0 || slices.ContainsFunc(e.Services, concerns)) {
			gap += overlap(from, to, e.At.Earliest, e.At.Latest)
		}
	}
	return gap*2 >= to-from
}

// servicesOf are the Services that each Pod was an endpoint of, by its UID.
func servicesOf(tl *model.Timeline) map[string][]string {
	of := map[string][]string{}
	for _, e := range tl.Events {
		if e.Kind == timeline.EndpointChanged && e.Object != nil && !slices.Contains(of[e.Object.UID], e.Service) {
			of[e.Object.UID] = append(of[e.Object.UID], e.Service)
		}
	}
	return of
}

// glyph draws a level, and notes that the legend must explain it.
func (c *chart) glyph(level string) span {
	c.used[level] = true
	if c.Unicode {
		return span{levels[level].unicode, levels[level].style}
	}
	return span{levels[level].ascii, levels[level].style}
}

// podsToShow are the Pods that changed during the run, the worst first, and how many there were that did not.
func podsToShow(tl *model.Timeline, exits []exit) (pods []model.Pod, steady, hidden int) {
	for _, p := range tl.Pods {
		switch {
		case len(p.States) == 0:
		case isSteady(p, exits):
			steady++
		default:
			pods = append(pods, p)
		}
	}
	slices.SortStableFunc(pods, func(a, b model.Pod) int {
		return cmp.Or(cmp.Compare(harm(tl, b, exits), harm(tl, a, exits)), cmp.Compare(firstChange(a), firstChange(b)))
	})
	hidden = max(0, len(pods)-maxPods)
	return pods[:len(pods)-hidden], steady, hidden
}

// isSteady reports whether a Pod was ready when the run began to watch it, and stayed so.
func isSteady(p model.Pod, exits []exit) bool {
	return len(p.States) == 1 && p.States[0].State == "ready" && p.Created == nil && !slices.ContainsFunc(exits, func(e exit) bool { return e.uid == p.UID })
}

// harm ranks what happened to a Pod: it broke, it was named as a cause, it ended, it came.
func harm(tl *model.Timeline, p model.Pod, exits []exit) int {
	rank := 0
	if slices.ContainsFunc(p.States, func(s model.PodState) bool { return strings.HasPrefix(s.State, "terminating") || s.State == "gone" }) {
		rank = 1
	}
	if slices.ContainsFunc(tl.Windows, func(w model.Window) bool { return len(w.Causes) > 0 && strings.Contains(w.Causes[0].Text, p.Name) }) {
		rank = 2
	}
	if slices.ContainsFunc(p.States, func(s model.PodState) bool { return s.State == "crashed" }) ||
		slices.ContainsFunc(exits, func(e exit) bool { return e.uid == p.UID && !e.ending }) {
		rank = 3
	}
	return rank
}

func firstChange(p model.Pod) time.Duration {
	if len(p.States) > 1 {
		return p.States[1].Start
	}
	return p.States[0].Start
}

// An exit is the end of a container.
type exit struct {
	uid    string // of its Pod
	name   string // of its Pod
	at     time.Duration
	code   int
	ending bool // the Pod was to end
	again  bool // the container was started again
}

// exitsOf are the ends of containers that are worth telling: with a code that is not 0, or while their Pod was not to end.
func exitsOf(tl *model.Timeline) []exit {
	var exits []exit
	ending := map[string]bool{}
	last := map[string]int{} // by Pod and container: its latest end, in exits
	for _, e := range tl.Events {
		if e.Object == nil || e.Object.UID == "" {
			continue
		}
		uid := e.Object.UID
		container, _, _ := strings.Cut(e.Detail, " ")
		switch {
		case e.Kind == timeline.PodDeleted, e.Kind == timeline.PodGone:
			ending[uid] = true
		case e.Kind == timeline.EndpointChanged && strings.HasPrefix(e.To, timeline.EndpointTerminating):
			ending[uid] = true
		case e.Kind == timeline.PodContainer && e.To == "terminated" && e.At.Earliest > model.Unbounded && (exitCode(e) != 0 || !ending[uid]):
			last[uid+" "+container] = len(exits)
			exits = append(exits, exit{uid: uid, name: e.Object.Name, at: e.Seen, code: exitCode(e), ending: ending[uid]})
		case e.Kind == timeline.PodContainer && e.To == "running":
			if i, ok := last[uid+" "+container]; ok {
				exits[i].again = true
			}
		}
	}
	return slices.DeleteFunc(exits, func(e exit) bool { return e.code == 0 && !e.ending && !e.again && finished(tl, e.uid) })
}

// finished reports whether a Pod still came up after the end of a container: it was one that only prepares the others.
func finished(tl *model.Timeline, uid string) bool {
	i := slices.IndexFunc(tl.Pods, func(p model.Pod) bool { return p.UID == uid })
	return i < 0 || !slices.ContainsFunc(tl.Pods[i].States, func(s model.PodState) bool { return s.State == "crashed" })
}

// maxExits is how many lines the chart has about containers that exited.
const maxExits = 4

// exitLines say which Pods' containers exited and how, those that did alike in one line.
func exitLines(exits []exit) []string {
	type kind struct {
		code  int
		again bool
	}
	var kinds []kind
	names := map[kind][]string{}
	for _, e := range exits {
		k := kind{e.code, e.again}
		if names[k] == nil {
			kinds = append(kinds, k)
		}
		if name := lastPart(e.name); !slices.Contains(names[k], name) {
			names[k] = append(names[k], name)
		}
	}
	var lines []string
	for i, k := range kinds {
		if i == maxExits {
			lines = append(lines, quantity.Count(len(kinds)-i, "further exit code")+": see timeline.json")
			break
		}
		line := "exited, code " + codeText(k.code)
		if k.again {
			line += ", and started again"
		}
		list := names[k]
		if more := len(list) - 6; more > 0 {
			list = append(list[:6:6], fmt.Sprintf("and %d more", more))
		}
		lines = append(lines, line+": "+strings.Join(list, ", "))
	}
	return lines
}

// codeText is an exit code, with the signal it stands for. A shell and a container runtime add 128 to a signal's number.
func codeText(code int) string {
	for name, signal := range map[string]syscall.Signal{"SIGKILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM, "SIGSEGV": syscall.SIGSEGV, "SIGABRT": syscall.SIGABRT, "SIGINT": syscall.SIGINT} {
		if code == 128+int(signal) {
			return fmt.Sprintf("%d (%s)", code, name)
		}
	}
	return fmt.Sprint(code)
}

// podLabels are names short enough for a lane: the last part of the Pod's name, where that tells it
// from the others, and its node.
func (c *chart) podLabels(pods []model.Pod) map[string]string {
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
func (c *chart) legend() {
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
		text := "endpoints: the fewest ready"
		if c.used["counts"] {
			text += ", a number where it changes"
		}
		parts = append(parts, text)
	}
	c.flow(parts)
	for _, line := range exitLines(c.exits) {
		c.line(c.page.span("   "+line, normal))
	}
	if c.steady > 0 {
		c.line(c.page.span("   "+quantity.Count(c.steady, "more Pod")+" ready all the time", dim))
	}
	if c.hidden > 0 {
		c.line(c.page.span("   "+quantity.Count(c.hidden, "more Pod")+" changed, less: see timeline.json", dim))
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
