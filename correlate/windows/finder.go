// Package windows turns the requests of one target into windows and unobserved time. A [Reading] takes requests in the order they were
// sent. The package is mathematics of instants: it knows nothing of the cluster.
package windows

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A Sample is what windows need of a request: when it was sent, when its outcome was known to us,
// and what it was.
type Sample struct {
	Sent, Done time.Duration
	Due        time.Duration
	Seq        uint64
	Backend    uint16
	Class      timeline.Class
	Delayed    bool // it was answered, but by how long our own stop delayed that, nobody knows
}

// InOrder sorts flights the way windows read them: by Sent, then by Seq.
func InOrder(a, b Sample) int {
	if a.Sent != b.Sent {
		return cmp.Compare(a.Sent, b.Sent)
	}
	return cmp.Compare(a.Seq, b.Seq)
}

// A window is a [model.Window] in the making: the figures of its failures F, from which brackets and
// shares follow.
//
// In a window of slow successes these stand in for the failures, and the quick successes for the
// successes.
type window struct {
	minSent, maxSent   time.Duration // of F
	minKnown, maxKnown time.Duration // of F
	lastSure           time.Duration // the latest instant at which F proves the fault lasted: max Sent(F), but see finder.sureFrom
	usual              bool          // minKnown or lastSure rests on how soon answers usually come
	failed             int           // |F|
	inside             int           // successes amid F: see growing.amid
	classes            [timeline.NumClasses]int
	backends           map[uint16]int // who answered the successes inside; nil if nobody did
	blackout           *model.Length

	shareLow, shareHigh float64 // bounds of the share of requests that failed: at the least of those amid the failures, at the most of those within the brackets
	proofs              proofs  // how many successes prove health beside this window
	beside              proofs  // how many of these lie within its brackets
	start, end          model.Instant
	open                model.Open
	cut                 *model.Instant // when its requests in flight were cut, all at once; nil if they were not
}

// A run is a stretch of failures without a success wholly between two of them. Its fields mean what
// they mean in a window.
type run struct {
	before             time.Duration // the last good sign before it: Sent of a success, or where observing began
	minSent            time.Duration
	minKnown, lastSure time.Duration
	sureKnown          time.Duration // minKnown since the last gap that was longer than usual
	least              time.Duration // the longest stretch before that gap
	failed             int
	pierced            bool // a success lies amid it, though not wholly between two failures: it was no stretch without any
}

// A growing window may still take in failures.
type growing struct {
	window
	run    run           // the last one
	held   int           // successes sent since the first failure
	edges  edges         // what proofs rest on, beside failed and inside
	answer time.Duration // L of the design: by when an answer would have come while healthy; never if unknown

	lastDone                  time.Duration // the latest Known of a failure that did not time out: at what instant the others failed, nobody knows
	firstArrival, lastArrival time.Duration // by when the first, and from when on the last request failed for want of a connection; never and -1 if none did

	tail     []Sample      // successes sent since the first failure that are not known to be inside, by Sent
	soonest  time.Duration // the earliest Done in tail
	proof    time.Duration // the earliest Done of a success with Sent ≥ max Known; never if there is none
	dark     bool          // unobserved time lies after max Known
	darkFrom time.Duration // where it begins
}

// An ending window takes in no more failures, but its end awaits the k-th next success.
type ending struct {
	window
	dones []time.Duration // Done of the successes with Sent ≥ max Known, rising; if requests in flight were cut, of those with Done ≥ max Known
	sents []time.Duration // if they were: Sent of the successes with Sent ≥ max Known, rising
}

// latest is by when the window had ended: when the k-th next success was done. A cut is over for what arrives as soon as
// k successes were sent, and for what is in flight as soon as k were done.
func (e *ending) latest() (time.Duration, bool) {
	k := e.proofs.end
	switch {
	case len(e.dones) < k || e.cut != nil && len(e.sents) < k:
		return 0, false
	case e.cut != nil:
		return max(e.dones[k-1], e.sents[k-1]+MaxReorder), true
	}
	return e.dones[k-1], true
}

// A finder turns the requests of one target, given in order, into windows: of failures if slow is
// 0, else of successes that took longer than slow.
//
// It keeps little: the window that grows, the one that ends, and the recent successes before them.
type finder struct {
	join, Slow, timeout time.Duration
	interval            time.Duration // between due instants; 0 if not known

	begin   time.Duration // where observing began
	floor   time.Duration // end of the window before: nothing before it belongs to the next one; -1 if there is none
	recent  history       // successes since floor and before the growing window
	light   time.Duration // the end of the last unobserved time
	healthy Healthy
	growing *growing
	ending  *ending
	found   []window // final, by start
}

// clone returns a finder that can be driven on without touching f, as long as f stands still. It
// finds only what f has not found yet.
func (f *finder) clone() finder {
	c := *f
	c.found = nil
	c.recent = f.recent.overlay()
	if f.growing != nil {
		g := *f.growing
		g.tail = slices.Clone(g.tail)
		g.backends = maps.Clone(g.backends)
		c.growing = &g
	}
	if f.ending != nil {
		e := *f.ending
		e.dones, e.sents = slices.Clone(e.dones), slices.Clone(e.sents)
		c.ending = &e
	}
	return c
}

// take reads the next request.
func (f *finder) take(r Sample) {
	f.advance(r.Sent)
	switch {
	case f.Slow > 0 && r.Delayed: // it may have been quick or slow
	case f.troubled(r):
		f.trouble(r)
	case r.Class == timeline.OK:
		f.success(r)
	}
}

func (f *finder) troubled(r Sample) bool {
	if f.Slow > 0 {
		return r.Class == timeline.OK && r.Done-r.Sent > f.Slow
	}
	return r.Class.Failed()
}

// advance says that everything sent before now was read, and settles what that decides.
func (f *finder) advance(now time.Duration) {
	if g := f.growing; g != nil {
		if now-g.maxKnown >= f.join && (g.proof <= now || g.dark) {
			f.close(model.Never)
		}
	}
	if e := f.ending; e != nil && f.growing == nil {
		if latest, known := e.latest(); known && latest <= now {
			f.settle(model.Never)
		}
	}
}

// unobserved says that nothing was sent or in flight between two instants.
func (f *finder) unobserved(from, to time.Duration) {
	f.light = to
	if g := f.growing; g != nil && !g.dark {
		g.dark, g.darkFrom = true, from
	}
}

// skipped says that the time since the request before was longer than usual, but counts as observed. The Service may have been well
// in it, so a stretch of failures that it lies in has no least length but that of its parts.
func (f *finder) skipped() {
	if g := f.growing; g != nil {
		g.run.part()
	}
}

// part begins a new part of r.
func (r *run) part() {
	r.least = max(r.least, r.lastSure-r.sureKnown)
	r.sureKnown = model.Never
}

func (f *finder) success(r Sample) {
	if g := f.growing; g != nil {
		g.hold(r)
		return
	}
	if !r.Delayed {
		f.healthy.Add(r)
	}
	f.recent.push(evidence{r.Sent, r.Done})
	if f.ending != nil {
		f.ending.prove(r)
	}
}

func (f *finder) trouble(r Sample) {
	g := f.growing
	if g == nil {
		g = f.open(r)
		f.growing = g
	} else if g.proof <= r.Sent || g.dark {
		g.endRun(model.Never)
		g.run = newRun(r.Sent, max(f.light, g.lastProof(r.Sent)))
	}
	known := f.known(r, g.answer)
	sure := f.sureFrom(r, g.answer)

	g.failed++
	g.classes[r.Class]++
	g.usual = g.usual || f.Slow == 0 && known < r.Done && known < g.minKnown || sure < r.Sent
	g.minKnown, g.maxKnown = min(g.minKnown, known), max(g.maxKnown, known)
	g.maxSent, g.lastSure = r.Sent, max(g.lastSure, sure)
	g.run.failed++
	g.run.minKnown, g.run.sureKnown, g.run.lastSure = min(g.run.minKnown, known), min(g.run.sureKnown, known), max(g.run.lastSure, sure)
	g.dark = false
	if !r.Class.Timeout() {
		g.lastDone = max(g.lastDone, known)
	}
	if Unconnected(r.Class) {
		g.firstArrival, g.lastArrival = min(g.firstArrival, Arrival(r.Class, r.Sent, known)), r.Sent
	}
	g.sift(known - r.Sent)
	g.edges.note(g.failed, g.held)
}

// open begins a window at its first failure.
func (f *finder) open(r Sample) *growing {
	before, ok := f.recent.kthLast(1, r.Sent)
	if !ok {
		before = max(f.begin, f.floor)
	}
	return &growing{
		window:       window{minSent: r.Sent, minKnown: model.Never, lastSure: math.MinInt64},
		run:          newRun(r.Sent, max(before, f.light)),
		answer:       f.healthy.Answer(),
		soonest:      model.Never,
		firstArrival: model.Never, lastArrival: -1,
		proof: model.Never,
	}
}

func newRun(sent, before time.Duration) run {
	return run{before: before, minSent: sent, minKnown: model.Never, sureKnown: model.Never, lastSure: math.MinInt64}
}

// known is the instant by which r proves the fault: its Done. A request that timed out would have
// been answered sooner, had there been no fault; so would a slow one.
func (f *finder) known(r Sample, answer time.Duration) time.Duration {
	switch {
	case f.Slow > 0:
		return min(r.Done, r.Sent+f.Slow)
	case r.Class.Timeout() && answer < r.Done-r.Sent:
		return r.Sent + answer
	}
	return r.Done
}

// sureFrom is an instant no later than the end of the fault r met: when it was sent. A request
// refused for want of a free connection was never sent: it shows that no answer to an earlier one
// had arrived, which takes up to a healthy answer's time.
func (f *finder) sureFrom(r Sample, answer time.Duration) time.Duration {
	if r.Class == timeline.NoSlot {
		return max(f.begin, r.Sent-min(answer, f.timeout))
	}
	return r.Sent
}

// close ends the growing window at the last failure read. No request after bound is known.
func (f *finder) close(bound time.Duration) {
	g := f.growing
	g.spare(f.interval)
	g.endRun(bound)
	w := g.window
	by := w.minSent
	if w.cut != nil {
		by, w.blackout = model.Never, nil // whenever they were done, what was sent before the first failure was spared
	}
	w.proofs = g.edges.proofs(w.failed, w.inside)
	w.start = model.Instant{Earliest: f.begin, Latest: w.minKnown}
	sent, ok := f.recent.kthLast(w.proofs.start, by)
	switch {
	case ok:
		w.start.Earliest = sent
		w.beside.start = w.proofs.start - 1
	case f.floor >= 0:
		w.start.Earliest = f.floor
	default:
		w.start.Earliest = min(f.begin, w.minSent)
		w.open.Start = true
	}
	w.end.Earliest = w.lastSure

	f.settle(w.minKnown)
	f.growing = nil
	f.ending = &ending{window: w}
	f.floor = w.maxSent
	f.recent.reset()
	for _, s := range g.tail {
		f.ending.prove(s)
		if s.Sent >= w.maxSent {
			f.recent.push(evidence{s.Sent, s.Done})
		}
	}
}

// settle makes the ending window final, now that no more success can narrow its end. bound is an
// instant it had surely ended by, never if there is none.
func (f *finder) settle(bound time.Duration) {
	e := f.ending
	if e == nil {
		return
	}
	f.ending = nil
	e.end.Latest = bound
	if latest, known := e.latest(); known && latest <= bound {
		e.end.Latest = latest
		e.beside.end = e.proofs.end - 1
	}
	e.weigh()
	f.found = append(f.found, e.window)
}

// finish makes everything final as it stands: nothing is known of the time after end.
func (f *finder) finish(end time.Duration) {
	if g := f.growing; g != nil {
		f.close(max(end, g.maxKnown))
	}
	if e := f.ending; e != nil {
		_, known := e.latest()
		e.open.End = !known
		bound := max(end, e.maxKnown, e.lastDone())
		if e.timedOut() { // that they failed became known later: of that time nothing was asked
			e.start.Latest = min(e.start.Latest, max(end, e.maxSent))
			if e.open.End {
				bound = max(end, e.maxSent)
			}
		}
		f.settle(bound)
	}
}

// timedOut reports whether all failures are requests that were not answered in time.
func (w *window) timedOut() bool {
	for class, n := range w.classes {
		if n > 0 && !timeline.Class(class).Timeout() {
			return false
		}
	}
	return true
}

// hold keeps a success until it is known whether it lies inside.
func (g *growing) hold(r Sample) {
	g.held++
	g.tail = append(g.tail, r)
	g.soonest = min(g.soonest, r.Done)
	if r.Sent >= g.maxKnown {
		g.proof = min(g.proof, r.Done)
	}
}

// lastProof is the latest Sent of a held success that was done by now.
func (g *growing) lastProof(now time.Duration) time.Duration {
	for _, s := range slices.Backward(g.tail) {
		if s.Done <= now {
			return s.Sent
		}
	}
	return g.maxKnown
}

// endRun closes the last run of failures, and notes it if it is the longest.
func (g *growing) endRun(bound time.Duration) {
	bound = min(bound, g.proof)
	if g.dark {
		bound = min(bound, g.darkFrom)
	}
	if g.run.failed < 3 {
		return
	}
	this := model.Length{Min: max(0, g.run.least, g.run.lastSure-g.run.sureKnown), Max: bound - g.run.before}
	if g.run.pierced {
		this.Min = 0
	}
	g.blackout = model.Longer(g.blackout, this)
}

// sift counts the held successes that lie amid the failures now, and drops those that never will. roundTrip is how long after it
// was sent the newest failure proved the fault.
func (g *growing) sift(roundTrip time.Duration) {
	defer g.reprove()
	before := g.maxSent - roundTrip
	if len(g.tail) == 0 || g.soonest > max(g.maxSent, g.lastDone) && g.tail[0].Sent > max(before, g.lastArrival) {
		return
	}
	final := g.maxSent >= g.minKnown // no later failure was known sooner
	kept := g.tail[:0]
	g.soonest = model.Never
	for _, s := range g.tail {
		switch {
		case g.amid(s, before):
			g.count(s)
		case final && s.Sent < g.minKnown && !g.follows(s) && s.Sent <= g.firstArrival:
		default:
			kept = append(kept, s)
			g.soonest = min(g.soonest, s.Done)
		}
	}
	g.tail = kept
}

// amid reports whether a success lies amid the failures: it would have failed, had every request. Which instant between
// its Sent and its Done decided on it, nobody knows. So it lies amid them if
//
//   - it was under way only after the first failure was known and before the last was sent, or
//   - it was sent then, took no longer than usual, and was sent before: a failure's round trip before the last failure. So where
//     failures are quick and answers slow; or
//   - it was sent between failures to connect: these are decided when the first packet arrives, whenever that becomes known, or
//   - it was sent between failures and done between failures: whether requests are decided on when they arrive, when
//     they are answered, or all that are in flight at once, this one was while others failed. So where both are slow.
func (g *growing) amid(s Sample, before time.Duration) bool {
	switch {
	case s.Sent >= g.minKnown && (s.Done <= g.maxSent || s.Sent <= before && s.Done-s.Sent <= g.answer && g.answer != model.Never):
		return true
	case s.Sent > g.firstArrival && s.Sent+MaxReorder < g.lastArrival:
		return true
	}
	return g.follows(s) && s.Sent+MaxReorder < g.maxSent && s.Done+MaxReorder < max(g.maxSent, g.lastDone)
}

// spare counts the successes that were in flight when others were cut, all at once: a server was killed. These were sent and
// done beside the failures, and would have failed as well, had every request.
//
//	sent   . x . x x .            of six requests in flight three were cut:
//	done               xxx. . .   half of them, at one instant
func (g *growing) spare(interval time.Duration) {
	if !g.atOnce(interval) {
		return
	}
	for _, s := range g.tail {
		if g.follows(s) && s.Sent+MaxReorder < g.minKnown && s.Done-MaxReorder > g.lastDone {
			g.cut = &model.Instant{Earliest: g.minKnown, Latest: g.lastDone}
			g.count(s)
		}
	}
}

// atOnce reports whether the failures became known in so short a time that far fewer requests could have been answered in it: what
// decided on them did so for all that were in flight.
func (g *growing) atOnce(interval time.Duration) bool {
	for class, n := range g.classes {
		if n > 0 && !inFlight(timeline.Class(class)) {
			return false
		}
	}
	took := g.lastDone - g.minKnown
	return interval > 0 && g.failed >= 3 && took >= 0 && took*2 < time.Duration(g.failed-2)*interval
}

// inFlight reports whether a request that failed so had reached somebody, and failed when that became known.
func inFlight(class timeline.Class) bool {
	return class == timeline.Reset || class == timeline.EOF || class == timeline.Body || class == timeline.HTTP5xx
}

// Unconnected reports whether a request that failed so got no connection.
func Unconnected(class timeline.Class) bool {
	return class == timeline.Refused || class == timeline.TimeoutConnect || class == timeline.Unreachable
}

// Arrival is the instant by which the first packet of a request that got no connection had arrived, or was lost.
func Arrival(class timeline.Class, sent, known time.Duration) time.Duration {
	if class == timeline.TimeoutConnect {
		return sent + MaxReorder
	}
	return known
}

// follows reports whether a success was sent after, and done after, the first failure.
func (g *growing) follows(s Sample) bool {
	return s.Sent-MaxReorder > g.minSent && s.Done-MaxReorder > g.minKnown
}

// MaxReorder is by how much two requests may overtake each other on their way: in the network, or waiting for a processor.
const MaxReorder = 5 * time.Millisecond

// reprove finds the proof among the successes sent no sooner than the failures were known.
func (g *growing) reprove() {
	g.proof = model.Never
	for _, s := range slices.Backward(g.tail) {
		if s.Sent < g.maxKnown {
			return
		}
		g.proof = min(g.proof, s.Done)
	}
}

func (g *growing) count(s Sample) {
	g.inside++
	g.run.pierced = g.run.pierced || s.Sent > g.run.minSent && s.Done > g.run.minKnown
	if s.Backend == 0 {
		return
	}
	if g.backends == nil {
		g.backends = map[uint16]int{}
	}
	g.backends[s.Backend]++
}

// lastDone is the latest of dones.
func (e *ending) lastDone() time.Duration {
	if len(e.dones) == 0 {
		return 0
	}
	return e.dones[len(e.dones)-1]
}

// prove adds a success to those that prove the end.
func (e *ending) prove(r Sample) {
	if r.Sent >= e.maxKnown || e.cut != nil && r.Done >= e.maxKnown {
		e.dones = insert(e.dones, r.Done, e.proofs.end)
	}
	if r.Sent >= e.maxKnown && e.cut != nil {
		e.sents = insert(e.sents, r.Sent, e.proofs.end)
	}
}

// insert puts an instant into a rising list of at most most.
func insert(list []time.Duration, at time.Duration, most int) []time.Duration {
	i, _ := slices.BinarySearch(list, at)
	if i >= most {
		return list
	}
	list = slices.Insert(list, i, at)
	return list[:min(len(list), most)]
}
