package windows

import (
	"math"
	"slices"
	"time"

	"lapse/timeline"
)

// Without --slow, a success is slow if it took longer than leastSlow, and longer than slowFactor times what 9 of 10
// answers took at the start. leastSlow, because three times 2 ms does no harm; the factor, because a Service that
// always takes 1.5 s is not slow. The start, because a drain must not hide itself. The 90 % quantile, because a tenth
// may take another way (a cache that misses), and because two lost SYNs among 200 answers would make the 99 % quantile
// 3 s. slowFactor is a guess. A target whose every answer is slow has a note instead of a slow window.
const (
	leastSlow   = 500 * time.Millisecond
	slowFactor  = 3
	usualAnswer = 0.9         // the quantile that says what the target takes
	mostAnswers = 1000        // of them tell
	leastStart  = time.Second // and the requests sent within it, or within the baseline, if that is longer

	// A longer baseline is that of a run that waited, and its end may be slow already.
	mostStart    = 10 * time.Second
	startAnswers = 10 // tell more of a target that is seldom asked than mostStart
)

// A slowFinder finds windows of slow successes. It keeps the first requests until it knows what is slow.
type slowFinder struct {
	finder
	start   time.Duration    // how long measuring has to go on until what is slow is known; 0: it is
	first   []sampleAfterGap // the requests so far, by Sent; nil once it is known
	answers []time.Duration
}

// A sampleAfterGap is a request, and the time before it.
type sampleAfterGap struct {
	Sample
	gap gap
}

// take reads the next request that is evidence of the target.
func (f *slowFinder) take(r *Sample, before gap) {
	if f.Slow == 0 && (r.Sent >= f.begin+f.start || len(f.answers) == mostAnswers) {
		f.decide()
	}
	if f.Slow > 0 {
		f.judge(r, before)
		return
	}
	f.first = append(f.first, sampleAfterGap{*r, before})
	if r.Class == timeline.OK && !r.Delayed {
		f.answers = append(f.answers, r.Done-r.Sent)
	}
}

func (f *slowFinder) judge(r *Sample, before gap) {
	switch {
	case before.unobserved:
		f.finder.unobserved(before.idle.From, before.idle.To)
	case before.longer:
		f.finder.skipped()
	}
	f.finder.take(r)
}

// decide settles what is slow, and judges what was read until now by it.
func (f *slowFinder) decide() {
	if f.Slow > 0 {
		return
	}
	f.Slow = leastSlow
	if n := len(f.answers); n > 0 {
		answers := slices.Sorted(slices.Values(f.answers))
		f.Slow = max(f.Slow, slowFactor*answers[int(math.Ceil(usualAnswer*float64(n)))-1])
	}
	first := f.first
	f.first, f.answers = nil, nil
	for i := range first {
		f.judge(&first[i].Sample, first[i].gap)
	}
}

// unobserved and finish end the reading.
func (f *slowFinder) unobserved(from, to time.Duration) {
	f.decide()
	f.finder.unobserved(from, to)
}

func (f *slowFinder) finish(end time.Duration) {
	f.decide()
	f.finder.finish(end)
}

func (f *slowFinder) clone() slowFinder {
	c := *f
	c.finder = f.finder.clone()
	c.first, c.answers = slices.Clip(f.first), slices.Clip(f.answers)
	return c
}
