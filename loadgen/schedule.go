package loadgen

import (
	"math/bits"
	"time"

	"lapse/loadgen/internal/engine"
)

// A schedule knows when a target's requests are due: at offset + k intervals, for every whole k,
// counted from the clock's zero. So the due instants of two targets of one rate keep the distance their
// offsets have, whenever each of them began.
//
// It is arithmetic only; whoever holds the clock asks it.
type schedule struct {
	interval time.Duration
	share    float64       // which part of an interval the target is shifted by, 0 to 1
	seq      uint64        // of the next request
	next     time.Duration // when it is due
}

// newSchedule begins with the first due instant at or after now. share is which part of an interval the target is
// shifted by.
func newSchedule(rate, share float64, now time.Duration) schedule {
	s := schedule{share: share}
	s.rerate(rate, now)
	return s
}

// evenShare spreads places over an interval as evenly as can be done without knowing how many there
// will be: 0, 1/2, 1/4, 3/4, 1/8, … (van der Corput's sequence).
func evenShare(place int) float64 {
	return float64(bits.Reverse32(uint32(place))) / (1 << 32)
}

// places are the places in an interval that a Prober's targets have taken.
type places []bool

// take takes the first free place. Two targets that are started one after the other come to lie half an interval
// apart: the new and the reused connections of one Service sample it evenly together, whichever of them is ready
// first. That holds for every pair that begins at an even place.
func (p *places) take() int {
	for place, taken := range *p {
		if !taken {
			(*p)[place] = true
			return place
		}
	}
	*p = append(*p, true)
	return len(*p) - 1
}

// leave gives a place back.
func (p places) leave(place int) { p[place] = false }

// rerate continues at another rate: the next request is due at its first instant at or after now.
func (s *schedule) rerate(rate float64, now time.Duration) {
	s.interval = max(time.Duration(float64(time.Second)/rate), time.Microsecond)
	offset := time.Duration(s.share * float64(s.interval))
	k := (now - offset + s.interval - 1) / s.interval
	s.next = offset + k*s.interval
	if s.next < now { // rounding of a negative quotient
		s.next += s.interval
	}
}

// advance passes to the request after the next.
func (s *schedule) advance() {
	s.seq++
	s.next += s.interval
}

// due returns when the next request is due, in whole microseconds. The schedule itself keeps the
// nanoseconds, so that the rounding adds up to nothing.
func (s *schedule) due() time.Duration { return engine.FloorMicros(s.next) }
