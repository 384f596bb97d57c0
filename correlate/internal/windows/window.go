package windows

import (
	"cmp"
	"math"
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
	Delayed    bool // it was answered, but when the answer came is not known
}

// InOrder sorts samples by Sent, then by Seq: the order in which they are read.
func InOrder(a, b Sample) int {
	return cmp.Or(cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.Seq, b.Seq))
}

// Before reports whether a is read before b.
func (a *Sample) Before(b *Sample) bool {
	return a.Sent < b.Sent || a.Sent == b.Sent && a.Seq < b.Seq
}

// A window is a [model.Window] in the making. F are its failures; Known is the instant by which a failure proves the
// fault: its Done, or earlier for a timeout (see finder.known).
//
//	ok ok x x ok x ok ok   →   F are the x; the ok between them is inside
//
// In a window of slow successes these take the place of the failures, and quick successes that of the successes.
type window struct {
	minSent, maxSent   time.Duration // of F
	minKnown, maxKnown time.Duration // of F
	// the fault lasted at least until then: max Sent(F), or earlier for a request that was never sent (see
	// finder.certainFrom)
	lastCertain time.Duration
	statistical bool // minKnown or lastCertain rests on how soon answers usually come
	failed      int  // |F|
	inside      int  // successes between failures: see openWindow.isInside
	amid        int  // successes that count among the failures: see openWindow.countAmid
	setAside    int  // requests of class local between failures
	classes     [timeline.NumClasses]int
	backends    map[uint16]int // who answered the successes inside; nil if no reply named its sender
	blackout    *model.Length

	// bounds of the share of requests that failed. Low: failures ÷ (failures + amid). High: failures ÷ all within the
	// brackets
	shareLow, shareHigh float64
	needed              confirmations // k: how many successes in a row prove health before and after the window
	confirmed           confirmations // how many of these lie within the brackets
	start, end          model.Instant
	open                model.Open
	cut                 *model.Instant // when its requests in flight failed all at once; nil if they did not
}

// timeouts returns how many failures are requests that were not answered in time.
func (w *window) timeouts() (sum int) {
	for class, n := range w.classes {
		if timeline.Class(class).Timeout() {
			sum += n
		}
	}
	return sum
}

// timedOut reports whether all failures are requests that were not answered in time.
func (w *window) timedOut() bool { return w.timeouts() == w.failed }

// A failureRun is a stretch of failures without a success that was sent after one of them was known and done before
// the next was sent. Its fields mean what they mean in a window.
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

func newFailureRun(sent, before time.Duration) failureRun {
	return failureRun{before: before, minSent: sent, minKnown: model.Never, partKnown: model.Never,
		lastCertain: math.MinInt64}
}

// split begins a new part of r.
func (r *failureRun) split() {
	r.longestPart = max(r.longestPart, r.lastCertain-r.partKnown)
	r.partKnown = model.Never
}
