package windows

import (
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// An openWindow may still take in failures.
type openWindow struct {
	window
	run       failureRun     // the last one
	succeeded int            // successes sent since the first failure
	local     int            // requests of class local since the last failure
	boundary  boundaryCounts // how many failed and succeeded at either end of the window
	answer    time.Duration  // L: a healthy target answers within this time; Never if that is unknown

	lastDone time.Duration // the latest Known of a failure that did not time out
	// failures to connect: when the first had arrived, when the last was sent; Never and -1 if there were none
	firstArrival, lastArrival time.Duration

	buffered   []Sample      // successes since the first failure that are not known to be inside, by Sent
	soonest    time.Duration // the earliest Done in buffered
	proof      time.Duration // the earliest Done of a success with Sent ≥ max Known; Never if there is none
	gapFollows bool          // unobserved time lies after max Known
	gapFrom    time.Duration // where it begins
}

// buffer keeps a success until it is known whether it lies inside.
func (g *openWindow) buffer(r *Sample) {
	g.succeeded++
	g.buffered = append(g.buffered, *r)
	g.soonest = min(g.soonest, r.Done)
	if r.Sent >= g.maxKnown {
		g.proof = min(g.proof, r.Done)
	}
}

// lastProof returns the latest Sent of a buffered success that was done by now.
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

// classify counts the buffered successes that are inside the window now, and drops those that never will be.
// roundTrip is the time from Sent to Known of the newest failure.
func (g *openWindow) classify(roundTrip time.Duration) {
	defer g.findProof()
	before := g.maxSent - roundTrip
	if len(g.buffered) == 0 || g.soonest > max(g.maxSent, g.lastDone) &&
		g.buffered[0].Sent > max(before, g.lastArrival) {
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

// isInside reports whether a success lies between failures, so that it would have failed if every request had. The
// instant between Sent and Done at which the target decided on it is not known. So there are four ways to be inside:
//
//   - It was in flight only after the first failure was known and before the last was sent:
//     x (ok) x.
//
// - It was sent in that time, at least a failure's round trip before the last failure, and took no longer than a
// healthy answer. This
//
//	finds successes where failures are quick and answers are slow.
//
// - It was sent between two failures to connect. Those are decided when the first packet arrives, whenever that becomes
// known.
// - It was sent between failures and done between failures. Whether the target decides at arrival, at the answer or for
// all in flight at
//
//	once, others failed meanwhile. This finds successes where failures and answers are slow.
func (g *openWindow) isInside(s Sample, before time.Duration) bool {
	switch {
	case s.Sent >= g.minKnown && (s.Done <= g.maxSent || s.Sent <= before && s.Done-s.Sent <= g.answer &&
		g.answer != model.Never):
		return true
	case s.Sent > g.firstArrival && s.Sent+MaxReorder < g.lastArrival:
		return true
	}
	return g.follows(s) && s.Sent+MaxReorder < g.maxSent && s.Done+MaxReorder < max(g.maxSent, g.lastDone)
}

// follows reports whether a success was sent after the first failure was sent, and done after that was known.
func (g *openWindow) follows(s Sample) bool {
	return s.Sent-MaxReorder > g.minSent && s.Done-MaxReorder > g.minKnown
}

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

// countCut counts the successes that were in flight when others were cut, all at once, as when one of several servers
// is killed. They are inside the window: they would have failed if every request had.
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

// countAmid counts the successes among the failures. Few are proven to lie inside where requests time out, because
// it is not known when those failed. So all successes that were sent between two of them count.
//
//	sent   x ok x ok x ok x        →   4 of 7 failed, although each ok was done before
//	done    o    o    o     ....       the first x was known
//
// But where a target stops to answer at one instant, its slowest requests are still in flight then, and later ones were
// answered before. Where it answers again, those that time out just then and those that do not alternate as well. So
// none counts where 9 of 10 failures, and 20 or more, came in a row, and none is proven to lie inside:
//
//	sent   x ok ok x x x x x x … x x x ok x   →   all failed
func (g *openWindow) countAmid() {
	g.amid = g.inside
	if g.cut != nil || g.timeouts() == 0 {
		return
	}
	if run := g.boundary.mostInARow; g.inside == 0 && run >= stallFailures && run*10 >= g.failed*9 {
		return
	}
	g.amid = max(g.inside, g.boundary.succeededAmid(g.failed))
}

// stallFailures is how many requests in a row must have timed out for a target that stopped to answer at one instant.
const stallFailures = 20

// atOnce reports whether all failures became known within so short a time that far fewer requests could have been
// answered in it: one event failed all that were in flight.
func (g *openWindow) atOnce(interval time.Duration) bool {
	for class, n := range g.classes {
		if n > 0 && !inFlight(timeline.Class(class)) {
			return false
		}
	}
	took := g.lastDone - g.minKnown
	return interval > 0 && g.failed >= 3 && took >= 0 && took*2 < time.Duration(g.failed-2)*interval
}

// inFlight reports whether a request of this class had arrived somewhere, and failed only later.
func inFlight(class timeline.Class) bool {
	return class == timeline.Reset || class == timeline.EOF || class == timeline.Body || class == timeline.HTTP5xx
}

// Unconnected reports whether a request that failed so got no connection.
func Unconnected(class timeline.Class) bool {
	return class == timeline.Refused || class == timeline.TimeoutConnect || class == timeline.Unreachable
}

// Arrival returns the instant by which the first packet of a request that got no connection had arrived, or was lost.
func Arrival(class timeline.Class, sent, known time.Duration) time.Duration {
	if class == timeline.TimeoutConnect {
		return sent + MaxReorder
	}
	return known
}

// MaxReorder is the longest time by which one request can overtake another: in the network, or while it waits for a
// processor.
const MaxReorder = 5 * time.Millisecond
