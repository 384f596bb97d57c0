// Package windows turns the requests of one target into windows and unobserved time. A [Reading] takes requests in
// the order they were sent. The package is mathematics of instants: it knows nothing of the cluster.
package windows

import (
	"maps"
	"math"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A finder turns the requests of one target, given in order, into windows: of failures if slow is
// 0, else of successes that took longer than slow.
//
// It keeps little: the open window, the closing one, and the recent successes before them.
type finder struct {
	join, Slow, timeout time.Duration
	intervals           *Intervals

	begin time.Duration // when observing began
	// end of the window before: nothing before it belongs to the next one; -1 if there is none
	floor      time.Duration
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
	c.recent, c.profile = f.recent.overlay(), f.profile.clone()
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

// rest forgets most of the successes that no window will need.
func (f *finder) rest() {
	if f.open == nil {
		f.recent.rest()
	}
}

// take reads the next request.
func (f *finder) take(r *Sample) {
	f.advance(r.Sent)
	switch {
	case f.Slow > 0 && r.Delayed: // it may have been quick or slow
	case f.fails(r):
		f.failure(r)
	case r.Class == timeline.OK:
		f.success(r)
	}
}

func (f *finder) fails(r *Sample) bool {
	if f.Slow > 0 {
		return r.Class == timeline.OK && r.Done-r.Sent > f.Slow
	}
	return r.Class.Failed()
}

// advance notes that everything sent before now was read. It closes and settles the windows that this decides.
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

// unobserved notes that nothing was sent or in flight between two instants.
func (f *finder) unobserved(from, to time.Duration) {
	f.lastGapEnd = to
	if g := f.open; g != nil && !g.gapFollows {
		g.gapFollows, g.gapFrom = true, from
	}
}

// skipped notes that the time since the request before was longer than usual, but counts as observed. The Service may
// have been well in it, so only the parts before and after it bound the length of a stretch of failures from below.
func (f *finder) skipped() {
	if g := f.open; g != nil {
		g.run.split()
	}
}

// local notes a request whose failure may be the prober's own. It is no evidence of the target, but a window counts
// those between its failures.
func (f *finder) local() {
	if g := f.open; g != nil {
		g.local++
	}
}

func (f *finder) success(r *Sample) {
	if g := f.open; g != nil {
		g.buffer(r)
		return
	}
	if !r.Delayed {
		f.profile.Add(r, timeline.UsualGap(f.intervals.Longest(f.profile.last, r.Sent)))
	}
	f.recent.push(successSpan{r.Sent, r.Done})
	if f.closing != nil {
		f.closing.confirm(r)
	}
}

func (f *finder) failure(r *Sample) {
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
	g.setAside, g.local = g.setAside+g.local, 0
	g.classes[r.Class]++
	g.statistical = g.statistical || f.Slow == 0 && known < r.Done && known < g.minKnown || sure < r.Sent
	g.minKnown, g.maxKnown = min(g.minKnown, known), max(g.maxKnown, known)
	g.maxSent, g.lastCertain = r.Sent, max(g.lastCertain, sure)
	g.run.failed++
	g.run.minKnown, g.run.partKnown, g.run.lastCertain = min(g.run.minKnown, known), min(g.run.partKnown, known),
		max(g.run.lastCertain, sure)
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
func (f *finder) openAt(r *Sample) *openWindow {
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

// known returns the instant by which r proves the fault: its Done. For a timeout it is Sent + L, for a slow success
// Sent + --slow: a healthy target would have answered by then.
func (f *finder) known(r *Sample, answer time.Duration) time.Duration {
	switch {
	case f.Slow > 0:
		return min(r.Done, r.Sent+f.Slow)
	case r.Class.Timeout() && answer < r.Done-r.Sent:
		return r.Sent + answer
	}
	return r.Done
}

// certainFrom returns an instant at which the fault that r met still lasted: r's Sent. A request without a free
// connection (no_slot) was never sent: it shows only that no answer to an earlier request had arrived, and a healthy
// answer takes up to answer.
func (f *finder) certainFrom(r *Sample, answer time.Duration) time.Duration {
	if r.Class == timeline.NoSlot {
		return max(f.begin, r.Sent-min(answer, f.timeout))
	}
	return r.Sent
}

// close ends the open window at the last failure read. Nothing is known of the time after bound.
//
//	ok ok ok x x x ok ok ok   with k = 2: the start lies between the second ok from the left and the first x, the end
//	                          between the last x and the second ok after it
func (f *finder) close(bound time.Duration) {
	g := f.open
	g.countCut(f.intervals.Shortest(g.minSent, g.maxSent))
	g.countAmid()
	g.endRun(bound)
	w := g.window
	by := w.minSent
	if w.cut != nil {
		// a success that was sent before the first failure proves health whenever it was done
		by, w.blackout = model.Never, nil
	}
	w.needed = g.boundary.needed(w.failed, w.amid)
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
	f.recent.dropBefore(w.maxSent) // what was sent at the same instant was read before or after, by chance
	for i := range g.buffered {
		s := &g.buffered[i]
		f.closing.confirm(s)
		if s.Sent >= w.maxSent {
			f.recent.push(successSpan{s.Sent, s.Done})
		}
	}
}

// settle makes the closing window final: no later success can narrow its end. The window had ended by bound; Never if
// that is not known.
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
