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

// A Sample is what windows need of a request: when it was sent, when its outcome was known, and what the outcome was.
type Sample struct {
	Sent, Done time.Duration
	Due        time.Duration
	Seq        uint64
	Backend    uint16
	Class      timeline.Class
	Delayed    bool // it was answered, but by how long our own stop delayed that, nobody knows
}

// InOrder sorts samples by Sent, then by Seq: the order in which they are read.
func InOrder(a, b Sample) int {
	if a.Sent != b.Sent {
		return cmp.Compare(a.Sent, b.Sent)
	}
	return cmp.Compare(a.Seq, b.Seq)
}

// A window is a [model.Window] in the making. F are its failures; Known is the instant by which a failure proves the fault: its Done,
// or earlier for a timeout (see finder.known).
//
//	ok ok x x ok x ok ok   →   F are the x; the ok between them is inside
//
// In a window of slow successes these take the place of the failures, and quick successes that of the successes.
type window struct {
	minSent, maxSent   time.Duration // of F
	minKnown, maxKnown time.Duration // of F
	lastCertain        time.Duration // the fault lasted at least until then: max Sent(F), or earlier for a request that was never sent (see finder.certainFrom)
	statistical        bool          // minKnown or lastCertain rests on how soon answers usually come
	failed             int           // |F|
	inside             int           // successes between failures: see openWindow.isInside
	classes            [timeline.NumClasses]int
	backends           map[uint16]int // who answered the successes inside; nil if nobody did
	blackout           *model.Length

	shareLow, shareHigh float64       // bounds of the share of requests that failed. Low: failures ÷ (failures + inside). High: failures ÷ all within the brackets
	needed              confirmations // k: how many successes in a row prove health before and after the window
	confirmed           confirmations // how many of these lie within the brackets
	start, end          model.Instant
	open                model.Open
	cut                 *model.Instant // when its requests in flight failed all at once; nil if they did not
}

// A failureRun is a stretch of failures without a success that was sent after one of them was known and done before the next was sent.
// Its fields mean what they mean in a window.
//
//	x x ok x x   →   two runs
type failureRun struct {
	before                time.Duration // Sent of the last success before the run, or where observing began
	minSent               time.Duration
	minKnown, lastCertain time.Duration
	partKnown             time.Duration // minKnown since the last gap that was longer than usual
	longestPart           time.Duration // the longest part before that gap
	failed                int
	hasSuccess            bool // a success overlaps the run: it was no stretch without any
}

// An openWindow may still take in failures.
type openWindow struct {
	window
	run       failureRun     // the last one
	succeeded int            // successes sent since the first failure
	boundary  boundaryCounts // how many failed and succeeded at either end of the window
	answer    time.Duration  // L of the design: a healthy target answers within this time; Never if that is unknown

	lastDone                  time.Duration // the latest Known of a failure that did not time out
	firstArrival, lastArrival time.Duration // failures to connect: when the first had arrived, when the last was sent; Never and -1 if there were none

	buffered   []Sample      // successes since the first failure that are not known to be inside, by Sent
	soonest    time.Duration // the earliest Done in buffered
	proof      time.Duration // the earliest Done of a success with Sent ≥ max Known; Never if there is none
	gapFollows bool          // unobserved time lies after max Known
	gapFrom    time.Duration // where it begins
}

// A closingWindow takes in no more failures. Its end is known when the k-th next success is done.
type closingWindow struct {
	window
	dones []time.Duration // Done of the successes with Sent ≥ max Known, rising; if requests in flight were cut, of those with Done ≥ max Known
	sents []time.Duration // only if requests in flight were cut: Sent of the successes with Sent ≥ max Known, rising
}

// latest is the instant by which the window had ended: when the k-th next success was done. After a cut, k successes must have been sent
// (new requests are well) and k must be done (those in flight are well). It is not known while there are fewer.
func (e *closingWindow) latest() (time.Duration, bool) {
	k := e.needed.end
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
// It keeps little: the open window, the closing one, and the recent successes before them.
type finder struct {
	join, Slow, timeout time.Duration
	interval            time.Duration // between due instants; 0 if not known

	begin      time.Duration  // when observing began
	floor      time.Duration  // end of the window before: nothing before it belongs to the next one; -1 if there is none
	recent     successHistory // successes since floor and before the open window
	lastGapEnd time.Duration  // the end of the last unobserved time
	profile    LatencyProfile
	open       *openWindow
	closing    *closingWindow
	found      []window // final, by start
}

// clone returns a finder that can read on while f does not. It finds only what f has not found yet.
func (f *finder) clone() finder {
	c := *f
	c.found = nil
	c.recent = f.recent.overlay()
	if f.open != nil {
		g := *f.open
		g.buffered = slices.Clone(g.buffered)
		g.backends = maps.Clone(g.backends)
		c.open = &g
	}
	if f.closing != nil {
		e := *f.closing
		e.dones, e.sents = slices.Clone(e.dones), slices.Clone(e.sents)
		c.closing = &e
	}
	return c
}

// take reads the next request.
func (f *finder) take(r Sample) {
	f.advance(r.Sent)
	switch {
	case f.Slow > 0 && r.Delayed: // it may have been quick or slow
	case f.fails(r):
		f.failure(r)
	case r.Class == timeline.OK:
		f.success(r)
	}
}

func (f *finder) fails(r Sample) bool {
	if f.Slow > 0 {
		return r.Class == timeline.OK && r.Done-r.Sent > f.Slow
	}
	return r.Class.Failed()
}

// advance says that everything sent before now was read. It closes and settles the windows that this decides.
func (f *finder) advance(now time.Duration) {
	if g := f.open; g != nil {
		if now-g.maxKnown >= f.join && (g.proof <= now || g.gapFollows) {
			f.close(model.Never)
		}
	}
	if e := f.closing; e != nil && f.open == nil {
		if latest, known := e.latest(); known && latest <= now {
			f.settle(model.Never)
		}
	}
}

// unobserved says that nothing was sent or in flight between two instants.
func (f *finder) unobserved(from, to time.Duration) {
	f.lastGapEnd = to
	if g := f.open; g != nil && !g.gapFollows {
		g.gapFollows, g.gapFrom = true, from
	}
}

// skipped says that the time since the request before was longer than usual, but counts as observed. The Service may have been well
// in it, so a stretch of failures that it lies in has no least length but that of its parts.
func (f *finder) skipped() {
	if g := f.open; g != nil {
		g.run.split()
	}
}

// split begins a new part of r.
func (r *failureRun) split() {
	r.longestPart = max(r.longestPart, r.lastCertain-r.partKnown)
	r.partKnown = model.Never
}

func (f *finder) success(r Sample) {
	if g := f.open; g != nil {
		g.buffer(r)
		return
	}
	if !r.Delayed {
		f.profile.Add(r)
	}
	f.recent.push(successSpan{r.Sent, r.Done})
	if f.closing != nil {
		f.closing.confirm(r)
	}
}

func (f *finder) failure(r Sample) {
	g := f.open
	if g == nil {
		g = f.openAt(r)
		f.open = g
	} else if g.proof <= r.Sent || g.gapFollows {
		g.endRun(model.Never)
		g.run = newFailureRun(r.Sent, max(f.lastGapEnd, g.lastProof(r.Sent)))
	}
	known := f.known(r, g.answer)
	sure := f.certainFrom(r, g.answer)

	g.failed++
	g.classes[r.Class]++
	g.statistical = g.statistical || f.Slow == 0 && known < r.Done && known < g.minKnown || sure < r.Sent
	g.minKnown, g.maxKnown = min(g.minKnown, known), max(g.maxKnown, known)
	g.maxSent, g.lastCertain = r.Sent, max(g.lastCertain, sure)
	g.run.failed++
	g.run.minKnown, g.run.partKnown, g.run.lastCertain = min(g.run.minKnown, known), min(g.run.partKnown, known), max(g.run.lastCertain, sure)
	g.gapFollows = false
	if !r.Class.Timeout() {
		g.lastDone = max(g.lastDone, known)
	}
	if Unconnected(r.Class) {
		g.firstArrival, g.lastArrival = min(g.firstArrival, Arrival(r.Class, r.Sent, known)), r.Sent
	}
	g.classify(known - r.Sent)
	g.boundary.note(g.failed, g.succeeded)
}

// openAt begins a window at its first failure.
func (f *finder) openAt(r Sample) *openWindow {
	before, ok := f.recent.kthLast(1, r.Sent)
	if !ok {
		before = max(f.begin, f.floor)
	}
	return &openWindow{
		window:       window{minSent: r.Sent, minKnown: model.Never, lastCertain: math.MinInt64},
		run:          newFailureRun(r.Sent, max(before, f.lastGapEnd)),
		answer:       f.profile.Answer(),
		soonest:      model.Never,
		firstArrival: model.Never, lastArrival: -1,
		proof: model.Never,
	}
}

func newFailureRun(sent, before time.Duration) failureRun {
	return failureRun{before: before, minSent: sent, minKnown: model.Never, partKnown: model.Never, lastCertain: math.MinInt64}
}

// known is the instant by which r proves the fault: its Done. For a timeout it is Sent + L, for a slow success Sent + --slow: a healthy
// target would have answered by then.
func (f *finder) known(r Sample, answer time.Duration) time.Duration {
	switch {
	case f.Slow > 0:
		return min(r.Done, r.Sent+f.Slow)
	case r.Class.Timeout() && answer < r.Done-r.Sent:
		return r.Sent + answer
	}
	return r.Done
}

// certainFrom is an instant at which the fault that r met still lasted: r's Sent. A request without a free connection (no_slot) was never
// sent: it shows only that no answer to an earlier request had arrived, and a healthy answer takes up to answer.
func (f *finder) certainFrom(r Sample, answer time.Duration) time.Duration {
	if r.Class == timeline.NoSlot {
		return max(f.begin, r.Sent-min(answer, f.timeout))
	}
	return r.Sent
}

// close ends the open window at the last failure read. Nothing is known of the time after bound.
//
//	ok ok ok x x x ok ok ok   with k = 2: the start lies between the second ok from the left and the first x, the end between the last x
//	                          and the second ok after it
func (f *finder) close(bound time.Duration) {
	g := f.open
	g.countCut(f.interval)
	g.endRun(bound)
	w := g.window
	by := w.minSent
	if w.cut != nil {
		by, w.blackout = model.Never, nil // a success that was sent before the first failure proves health whenever it was done
	}
	w.needed = g.boundary.needed(w.failed, w.inside)
	w.start = model.Instant{Earliest: f.begin, Latest: w.minKnown}
	sent, ok := f.recent.kthLast(w.needed.start, by)
	switch {
	case ok:
		w.start.Earliest = sent
		w.confirmed.start = w.needed.start - 1
	case f.floor >= 0:
		w.start.Earliest = f.floor
	default:
		w.start.Earliest = min(f.begin, w.minSent)
		w.open.Start = true
	}
	w.end.Earliest = w.lastCertain

	f.settle(w.minKnown)
	f.open = nil
	f.closing = &closingWindow{window: w}
	f.floor = w.maxSent
	f.recent.reset()
	for _, s := range g.buffered {
		f.closing.confirm(s)
		if s.Sent >= w.maxSent {
			f.recent.push(successSpan{s.Sent, s.Done})
		}
	}
}

// settle makes the closing window final: no later success can narrow its end. The window had ended by bound; Never if that is not known.
func (f *finder) settle(bound time.Duration) {
	e := f.closing
	if e == nil {
		return
	}
	f.closing = nil
	e.end.Latest = bound
	if latest, known := e.latest(); known && latest <= bound {
		e.end.Latest = latest
		e.confirmed.end = e.needed.end - 1
	}
	e.boundShare()
	f.found = append(f.found, e.window)
}

// finish makes everything final as it stands: nothing is known of the time after end.
func (f *finder) finish(end time.Duration) {
	if g := f.open; g != nil {
		f.close(max(end, g.maxKnown))
	}
	if e := f.closing; e != nil {
		_, known := e.latest()
		e.open.End = !known
		bound := max(end, e.maxKnown, e.lastDone())
		if e.timedOut() { // their failure became known after measuring had ended
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

// buffer keeps a success until it is known whether it lies inside.
func (g *openWindow) buffer(r Sample) {
	g.succeeded++
	g.buffered = append(g.buffered, r)
	g.soonest = min(g.soonest, r.Done)
	if r.Sent >= g.maxKnown {
		g.proof = min(g.proof, r.Done)
	}
}

// lastProof is the latest Sent of a buffered success that was done by now.
func (g *openWindow) lastProof(now time.Duration) time.Duration {
	for _, s := range slices.Backward(g.buffered) {
		if s.Done <= now {
			return s.Sent
		}
	}
	return g.maxKnown
}

// endRun closes the last run of failures, and notes it if it is the longest.
func (g *openWindow) endRun(bound time.Duration) {
	bound = min(bound, g.proof)
	if g.gapFollows {
		bound = min(bound, g.gapFrom)
	}
	if g.run.failed < 3 {
		return
	}
	this := model.Length{Min: max(0, g.run.longestPart, g.run.lastCertain-g.run.partKnown), Max: bound - g.run.before}
	if g.run.hasSuccess {
		this.Min = 0
	}
	g.blackout = model.Longer(g.blackout, this)
}

// classify counts the buffered successes that are inside the window now, and drops those that never will be. roundTrip is the time from
// Sent to Known of the newest failure.
func (g *openWindow) classify(roundTrip time.Duration) {
	defer g.findProof()
	before := g.maxSent - roundTrip
	if len(g.buffered) == 0 || g.soonest > max(g.maxSent, g.lastDone) && g.buffered[0].Sent > max(before, g.lastArrival) {
		return
	}
	final := g.maxSent >= g.minKnown // no later failure was known sooner
	kept := g.buffered[:0]
	g.soonest = model.Never
	for _, s := range g.buffered {
		switch {
		case g.isInside(s, before):
			g.count(s)
		case final && s.Sent < g.minKnown && !g.follows(s) && s.Sent <= g.firstArrival:
		default:
			kept = append(kept, s)
			g.soonest = min(g.soonest, s.Done)
		}
	}
	g.buffered = kept
}

// isInside reports whether a success lies between failures, so that it would have failed if every request had. The instant between Sent
// and Done at which the target decided on it is not known. So there are four ways to be inside:
//
//   - It was in flight only after the first failure was known and before the last was sent:
//     x (ok) x.
//   - It was sent in that time, at least a failure's round trip before the last failure, and took no longer than a healthy answer. This
//     finds successes where failures are quick and answers are slow.
//   - It was sent between two failures to connect. Those are decided when the first packet arrives, whenever that becomes known.
//   - It was sent between failures and done between failures. Whether the target decides at arrival, at the answer or for all in flight at
//     once, others failed meanwhile. This finds successes where failures and answers are slow.
func (g *openWindow) isInside(s Sample, before time.Duration) bool {
	switch {
	case s.Sent >= g.minKnown && (s.Done <= g.maxSent || s.Sent <= before && s.Done-s.Sent <= g.answer && g.answer != model.Never):
		return true
	case s.Sent > g.firstArrival && s.Sent+MaxReorder < g.lastArrival:
		return true
	}
	return g.follows(s) && s.Sent+MaxReorder < g.maxSent && s.Done+MaxReorder < max(g.maxSent, g.lastDone)
}

// countCut counts the successes that were in flight when others were cut, all at once, as when one of several servers is killed. They are
// inside the window: they would have failed if every request had.
//
//	sent   . x . x x .            of six requests in flight three were cut:
//	done               xxx. . .   half of them, at one instant
func (g *openWindow) countCut(interval time.Duration) {
	if !g.atOnce(interval) {
		return
	}
	for _, s := range g.buffered {
		if g.follows(s) && s.Sent+MaxReorder < g.minKnown && s.Done-MaxReorder > g.lastDone {
			g.cut = &model.Instant{Earliest: g.minKnown, Latest: g.lastDone}
			g.count(s)
		}
	}
}

// atOnce reports whether all failures became known within so short a time that far fewer requests could have been answered in it: one
// event failed all that were in flight.
func (g *openWindow) atOnce(interval time.Duration) bool {
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

// follows reports whether a success was sent after the first failure was sent, and done after that was known.
func (g *openWindow) follows(s Sample) bool {
	return s.Sent-MaxReorder > g.minSent && s.Done-MaxReorder > g.minKnown
}

// MaxReorder is the longest time by which one request can overtake another: in the network, or while it waits for a processor.
const MaxReorder = 5 * time.Millisecond

// findProof finds the proof among the successes sent no sooner than the failures were known.
func (g *openWindow) findProof() {
	g.proof = model.Never
	for _, s := range slices.Backward(g.buffered) {
		if s.Sent < g.maxKnown {
			return
		}
		g.proof = min(g.proof, s.Done)
	}
}

func (g *openWindow) count(s Sample) {
	g.inside++
	g.run.hasSuccess = g.run.hasSuccess || s.Sent > g.run.minSent && s.Done > g.run.minKnown
	if s.Backend == 0 {
		return
	}
	if g.backends == nil {
		g.backends = map[uint16]int{}
	}
	g.backends[s.Backend]++
}

// lastDone is the latest of dones.
func (e *closingWindow) lastDone() time.Duration {
	if len(e.dones) == 0 {
		return 0
	}
	return e.dones[len(e.dones)-1]
}

// confirm adds a success to those that prove the end.
func (e *closingWindow) confirm(r Sample) {
	if r.Sent >= e.maxKnown || e.cut != nil && r.Done >= e.maxKnown {
		e.dones = insert(e.dones, r.Done, e.needed.end)
	}
	if r.Sent >= e.maxKnown && e.cut != nil {
		e.sents = insert(e.sents, r.Sent, e.needed.end)
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
