package correlate

import (
	"math/bits"
	"slices"
	"time"

	"lapse/timeline"
)

// Slots are 100 ms wide. Once a run needs more than maxSlots of them they merge in pairs, so that an
// hour still fits on a screen and in memory.
const (
	slotWidth = 100 * time.Millisecond
	maxSlots  = 3000
)

// LatencySlot is the slot of the latency histograms in [BucketSeries] that d belongs to. Slots are
// log-linear over whole microseconds: 0 to 7 hold one each, then eight slots divide every octave,
// so that a slot's bounds are at most 12.5 % apart. Slot 8 × (e−2) + m holds the latencies from
// (8+m) × 2^(e−3) µs up to the next slot's, for e ≥ 3 and 0 ≤ m < 8.
func LatencySlot(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 8 {
		return int(us)
	}
	e := bits.Len64(us) - 1
	return 8*(e-2) + int(us>>(e-3))&7
}

// SlotLatency is the range of latencies in a slot: from low up to, but not including, high.
func SlotLatency(slot int) (low, high time.Duration) {
	if slot < 8 {
		return time.Duration(slot) * time.Microsecond, time.Duration(slot+1) * time.Microsecond
	}
	unit := time.Microsecond << (slot/8 - 1)
	m := time.Duration(slot % 8)
	return (8 + m) * unit, (9 + m) * unit
}

// A slot counts the requests of one target that were sent in it.
type slot struct {
	sent, failed int
	first        int      // the latency slot that counts[0] stands for
	counts       []uint32 // of ok requests by latency slot
	sparse       SparseCounts
	stale        bool                         // sparse does not tell what counts does
	classes      *[timeline.NumClasses]uint32 // failures by class; nil while there are none
}

// fail counts a failed request.
func (s *slot) fail(class timeline.Class, n uint32) {
	if s.classes == nil {
		s.classes = new([timeline.NumClasses]uint32)
	}
	s.failed += int(n)
	s.classes[class] += n
}

func (s *slot) add(latencySlot int, n uint32) {
	s.stale = true
	switch {
	case len(s.counts) == 0:
		s.first = latencySlot
	case latencySlot < s.first:
		s.counts = slices.Insert(s.counts, 0, make([]uint32, s.first-latencySlot)...)
		s.first = latencySlot
	}
	for len(s.counts) <= latencySlot-s.first {
		s.counts = append(s.counts, 0)
	}
	s.counts[latencySlot-s.first] += n
}

// merge adds what o counted.
func (s *slot) merge(o slot) {
	s.sent += o.sent
	if o.classes != nil {
		for class, n := range o.classes {
			if n > 0 {
				s.fail(timeline.Class(class), n)
			}
		}
	}
	for i, n := range o.counts {
		if n > 0 {
			s.add(o.first+i, n)
		}
	}
}

// latency returns the counts as published. What it returned once never changes.
func (s *slot) latency() SparseCounts {
	if !s.stale && s.sparse != nil {
		return s.sparse
	}
	s.sparse, s.stale = SparseCounts{}, false
	for i, n := range s.counts {
		if n > 0 {
			s.sparse = append(s.sparse, s.first+i, int(n))
		}
	}
	return s.sparse
}

// A series is one target's slots from T0 on.
type series struct {
	width time.Duration
	slots []slot
}

// at returns the slot instant t lies in, widening slots until there are few enough.
func (s *series) at(t time.Duration) *slot {
	s.width = max(s.width, slotWidth)
	t = max(t, 0)
	for t/s.width >= maxSlots {
		s.widen(2 * s.width)
	}
	i := int(t / s.width)
	for len(s.slots) <= i {
		s.slots = append(s.slots, slot{})
	}
	return &s.slots[i]
}

// widen merges slots until they are width wide, which is their width doubled some times.
func (s *series) widen(width time.Duration) {
	s.width = max(s.width, slotWidth)
	for s.width < width {
		half := (len(s.slots) + 1) / 2
		for i := range half {
			pair := s.slots[2*i]
			if 2*i+1 < len(s.slots) {
				pair.merge(s.slots[2*i+1])
			}
			s.slots[i] = pair
		}
		clear(s.slots[half:])
		s.slots = s.slots[:half]
		s.width *= 2
	}
}

// publish returns the first n slots as they stand, with the share of each that dark covers.
func (s *series) publish(n int, dark []period) BucketSeries {
	b := BucketSeries{
		Sent:       make([]int, n),
		Failed:     make([]int, n),
		Unobserved: make([]float64, n),
		Latency:    make([]SparseCounts, n),
	}
	for i := min(n, len(s.slots)); i < n; i++ {
		b.Latency[i] = SparseCounts{}
	}
	for i := range s.slots {
		b.Sent[i], b.Failed[i], b.Latency[i] = s.slots[i].sent, s.slots[i].failed, s.slots[i].latency()
		b.fail(i, s.slots[i].classes)
	}
	for _, d := range dark {
		for i := int(d.from / s.width); i < n && time.Duration(i)*s.width < d.to; i++ {
			from := time.Duration(i) * s.width
			b.Unobserved[i] += float64(min(d.to, from+s.width)-max(d.from, from)) / float64(s.width)
		}
	}
	return b
}

// fail notes what classes slot i's failures are of.
func (b *BucketSeries) fail(i int, classes *[timeline.NumClasses]uint32) {
	if classes == nil {
		return
	}
	if b.Classes == nil {
		b.Classes = map[string]SparseCounts{}
	}
	for class, n := range classes {
		if n > 0 {
			name := timeline.Class(class).String()
			b.Classes[name] = append(b.Classes[name], i, int(n))
		}
	}
}

// slotsWide is the smallest width a slot can have that brings end within maxSlots, and holds two
// requests of a target whose interval is the longest that matters.
func slotsWide(end, longest time.Duration) time.Duration {
	width := slotWidth
	for end/width >= maxSlots || width < 2*longest && width < time.Hour {
		width *= 2
	}
	return width
}
