// Package align places instants of any source's clock on the run's clock, as brackets. It knows of clocks only what
// [timeline.Sync] facts say: at some instants of the source, bounds of how far the run's clock was ahead of it.
// Between and beyond these the two may part by [Drift]. Every bound holds at once, so the bracket is what all of them
// leave:
//
//	exchanges     [---------]                   [-----]
//	between them  [------------\ … /-----]      each widened by 1 ms for every second away, then intersected
//
// Two bounds that cannot both hold show a jump: the source was suspended, or moved to another machine. It is not known
// when between the two the clock jumped, so there the bracket holds the offset before and the one after. A jump smaller
// than the exchanges' own bounds cannot be seen.
package align

import (
	"slices"
	"sort"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Drift is how far two clocks part at most, as a share of the time: the kernel lets NTP make a clock faster or slower
// by 500 ppm (adjtimex(2)), and there are two of them.
const Drift = 1000e-6

// Clocks says how the sources' clocks stood against the run's. The zero value knows nothing: every source has the run's
// clock.
type Clocks struct {
	of map[timeline.SourceID]*clock
	n  int
}

// Add takes in a comparison of clocks, in any order. It leaves out one whose Max is below its Min.
func (c *Clocks) Add(s timeline.Sync) {
	if s.Max < s.Min {
		return
	}
	if c.of == nil {
		c.of = map[timeline.SourceID]*clock{}
	}
	of := c.of[s.Source]
	if of == nil {
		of = &clock{}
		c.of[s.Source] = of
	}
	of.syncs, of.spans = append(of.syncs, bound{s.At, s.Min, s.Max}), nil
	c.n++
}

// Len returns how many comparisons were added.
func (c *Clocks) Len() int { return c.n }

// Shared reports whether the source has the run's clock: every instant is what it is.
func (c *Clocks) Shared(source timeline.SourceID) bool { return c.of[source] == nil }

// At returns an instant of a source's clock as a bracket on the run's clock.
func (c *Clocks) At(source timeline.SourceID, instant time.Duration) model.Instant {
	of := c.of[source]
	if of == nil {
		return model.Instant{Earliest: instant, Latest: instant}
	}
	o := of.offset(instant)
	return model.Instant{Earliest: instant + o.min, Latest: instant + o.max}
}

// A Placed is when a request was due, sent and done on the run's clock, each to Error.
type Placed struct{ Due, Sent, Done, Error time.Duration }

// Place places a request of a source in the middle of what its clock allows.
func (c *Clocks) Place(source timeline.SourceID, due, sent, done time.Duration) Placed {
	if c.Shared(source) {
		return Placed{Due: due, Sent: sent, Done: done}
	}
	at := [...]model.Instant{c.At(source, due), c.At(source, sent), c.At(source, done)}
	var p Placed
	for _, i := range at {
		p.Error = max(p.Error, (i.Latest-i.Earliest+1)/2)
	}
	p.Sent = at[1].Earliest + p.Error
	p.Due = min(at[0].Earliest+p.Error, p.Sent)
	p.Done = max(at[2].Earliest+p.Error, p.Sent)
	return p
}

// From returns the earliest instant of a source's clock that can be this instant of the run's.
func (c *Clocks) From(source timeline.SourceID, run time.Duration) time.Duration {
	of := c.of[source]
	if of == nil {
		return run
	}
	all := of.all()
	low, high := run-all.max, run-all.min
	slack := spread(max((low - of.syncs[0].at).Abs(), (high - of.syncs[len(of.syncs)-1].at).Abs()))
	low, high = low-2*slack, high+2*slack
	steps := int64(min(high-low, 1<<62))
	n := sort.Search(int(steps), func(i int) bool { return c.At(source, low+time.Duration(i)).Latest >= run })
	return low + time.Duration(n)
}

// A Summary is what is known of a source's clock over a run.
type Summary struct {
	Min, Max  time.Duration // of how far the run's clock was ahead of it, over all exchanges
	Exchanges int
	Jumps     []Jump
}

// A Jump is a time, on the source's clock, in which it jumped against the run's, and by how much that may have gone
// ahead.
type Jump struct {
	From, To time.Duration
	Most     time.Duration // 0 if it can only have gone back
}

// Summary returns what is known of a source's clock; false if it is the run's.
func (c *Clocks) Summary(source timeline.SourceID) (Summary, bool) {
	of := c.of[source]
	if of == nil {
		return Summary{}, false
	}
	all := of.all()
	s := Summary{Min: all.min, Max: all.max, Exchanges: len(of.syncs)}
	for i := 1; i < len(of.spans); i++ {
		before, after := &of.spans[i-1], &of.spans[i]
		jump := Jump{From: before.last(), To: after.first()}
		jump.Most = max(0, after.offset(jump.To).max-before.offset(jump.From).min)
		s.Jumps = append(s.Jumps, jump)
	}
	return s, true
}

// A bound limits the offset at an instant.
type bound struct{ at, min, max time.Duration }

// near returns b as it limits the offset at another instant.
func (b bound) near(at time.Duration) bound {
	slack := spread((at - b.at).Abs())
	return bound{at, b.min - slack, b.max + slack}
}

// spread returns how far two clocks can part meanwhile, rounded up.
func spread(meanwhile time.Duration) time.Duration {
	return time.Duration(Drift*float64(meanwhile)) + 1
}

func (b bound) and(o bound) bound { return bound{b.at, max(b.min, o.min), min(b.max, o.max)} }
func (b bound) or(o bound) bound  { return bound{b.at, min(b.min, o.min), max(b.max, o.max)} }
func (b bound) empty() bool       { return b.max < b.min }

// A clock is the clock of one source.
type clock struct {
	syncs []bound // sorted by at once spans are made
	spans []span  // parted by jumps; nil: to be made
}

// A span is a row of comparisons without a jump between them. Time between two spans may belong to either.
type span struct {
	syncs     []bound
	forward   []bound // at each, the limits by it and all before it
	backward  []bound // at each, the limits by it and all after it
	following []bound // comparisons between this span and the next
}

func (s *span) first() time.Duration { return s.syncs[0].at }
func (s *span) last() time.Duration  { return s.syncs[len(s.syncs)-1].at }

// offset returns the limits of the offset at an instant within the span.
func (s *span) offset(at time.Duration) bound {
	next := sort.Search(len(s.syncs), func(i int) bool { return s.syncs[i].at > at })
	switch {
	case next == 0:
		return s.backward[0].near(at)
	case next == len(s.syncs):
		return s.forward[next-1].near(at)
	}
	return s.forward[next-1].near(at).and(s.backward[next].near(at))
}

func newSpan(syncs, following []bound) span {
	s := span{syncs: syncs, forward: slices.Clone(syncs), backward: slices.Clone(syncs), following: following}
	for i := 1; i < len(syncs); i++ {
		s.forward[i] = syncs[i].and(s.forward[i-1].near(syncs[i].at))
	}
	for i := len(syncs) - 2; i >= 0; i-- {
		s.backward[i] = syncs[i].and(s.backward[i+1].near(syncs[i].at))
	}
	return s
}

// prepare splits the comparisons into spans, where the clock jumped: between the first comparison that contradicts an
// earlier one, and the last one that it contradicts.
func (c *clock) prepare() {
	if c.spans != nil {
		return
	}
	slices.SortStableFunc(c.syncs, func(a, b bound) int { return int(min(max(a.at-b.at, -1), 1)) })
	start := 0
	left := c.syncs[0]
	for i := 1; i < len(c.syncs); i++ {
		s := c.syncs[i]
		if left = s.and(left.near(s.at)); !left.empty() {
			continue
		}
		last := i - 1
		for last > start && !c.syncs[last].near(s.at).and(s).empty() {
			last--
		}
		c.spans = append(c.spans, newSpan(c.syncs[start:last+1], c.syncs[last+1:i]))
		start, left = i, s
	}
	c.spans = append(c.spans, newSpan(c.syncs[start:], nil))
}

func (c *clock) offset(at time.Duration) bound {
	c.prepare()
	i := max(0, sort.Search(len(c.spans), func(i int) bool { return c.spans[i].first() > at })-1)
	s := &c.spans[i]
	o := s.offset(at)
	if at > s.last() && i+1 < len(c.spans) {
		o = o.or(c.spans[i+1].offset(at))
		for _, between := range s.following {
			o = o.or(between.near(at))
		}
	}
	return o
}

// all bounds the offset over all comparisons.
func (c *clock) all() bound {
	all := c.offset(c.syncs[0].at)
	for _, s := range c.syncs {
		all = all.or(c.offset(s.at))
	}
	return all
}
