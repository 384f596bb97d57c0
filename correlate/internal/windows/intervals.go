package windows

import (
	"slices"
	"time"

	"lapse/correlate/model"
)

// Intervals are the times between two due instants of a target: one from the beginning on, and another from each
// change of its rate on.
//
//	.     .     .   . . . . .   →   what lies before the change is known to the longer interval
type Intervals struct{ spans []span }

// A span is a time of one rate. It ends where the next begins.
type span struct {
	from     time.Duration
	interval time.Duration // 0 if it is not known
	sent     int           // requests with a result that counts
}

// NewIntervals returns the intervals of a target whose rate has not changed yet.
func NewIntervals(interval time.Duration) *Intervals {
	return &Intervals{spans: []span{{from: Always.From, interval: interval}}}
}

// Change begins another interval. A change that comes before the last one counts from that on.
func (s *Intervals) Change(from, interval time.Duration) {
	last := s.spans[len(s.spans)-1]
	if interval != last.interval {
		s.spans = append(s.spans, span{from: max(from, last.from), interval: interval})
	}
}

// at returns the span that holds an instant.
func (s *Intervals) at(instant time.Duration) *span {
	for i := len(s.spans) - 1; i > 0; i-- {
		if s.spans[i].from <= instant {
			return &s.spans[i]
		}
	}
	return &s.spans[0]
}

// At returns the interval at an instant.
func (s *Intervals) At(instant time.Duration) time.Duration { return s.at(instant).interval }

// Placed returns the intervals on another clock. Each begins at the latest instant at which it can have.
func (s *Intervals) Placed(place func(time.Duration) model.Instant) *Intervals {
	placed := &Intervals{spans: slices.Clone(s.spans)}
	for i := 1; i < len(placed.spans); i++ {
		placed.spans[i].from = place(placed.spans[i].from).Latest
	}
	return placed
}

// Count counts a request that was due at an instant.
func (s *Intervals) Count(due time.Duration) { s.at(due).sent++ }

// Longest returns the longest interval between two instants.
func (s *Intervals) Longest(from, to time.Duration) (longest time.Duration) {
	for _, p := range s.within(from, to) {
		longest = max(longest, p.interval)
	}
	return longest
}

// Shortest returns the shortest interval between two instants.
func (s *Intervals) Shortest(from, to time.Duration) time.Duration {
	shortest := s.At(from)
	for _, p := range s.within(from, to) {
		shortest = min(shortest, p.interval)
	}
	return shortest
}

// Always is all time.
var Always = Period{From: -1 << 62, To: 1 << 62}

func (s *Intervals) within(from, to time.Duration) []span {
	first, end := 0, len(s.spans)
	for first+1 < end && s.spans[first+1].from <= from {
		first++
	}
	for end-1 > first && s.spans[end-1].from > to {
		end--
	}
	return s.spans[first:end]
}

// TooLong returns the part of the time between two sends that is longer than limit allows at its rate, as asked. Where
// the rate was raised in it, the requests of the higher one are missing only since then; where it was lowered, the
// lower one counts, unless requests of the higher one were missing before.
func (s *Intervals) TooLong(from, to, asked time.Duration, limit func(interval, asked time.Duration) time.Duration) (
	since time.Duration, ok bool) {
	spans := s.within(from, to)
	for i, p := range spans {
		end := to
		if i+1 < len(spans) {
			end = spans[i+1].from
		}
		since = max(from, p.from)
		if to-since > limit(s.Longest(since, to), asked) || end-since > limit(p.interval, asked) {
			return since, true
		}
	}
	return 0, false
}

// Parts returns the parts of a time with one interval each.
func (s *Intervals) Parts(of Period) (parts []Period) {
	for i, p := range s.spans {
		part := Period{From: max(of.From, p.from), To: of.To}
		if i+1 < len(s.spans) {
			part.To = min(of.To, s.spans[i+1].from)
		}
		if part.From < part.To {
			parts = append(parts, part)
		}
	}
	return parts
}

// Slower returns the parts of a time with a longer interval than the shortest in it.
func (s *Intervals) Slower(of Period) (parts []Period) {
	if len(s.spans) == 1 {
		return nil
	}
	shortest := s.Shortest(of.From, of.To)
	for _, part := range s.Parts(of) {
		if s.At(part.From) > shortest {
			parts = append(parts, part)
		}
	}
	return parts
}

// LastChange returns when the interval changed last; ok is false if it never did.
func (s *Intervals) LastChange() (at time.Duration, ok bool) {
	last := len(s.spans) - 1
	return s.spans[last].from, last > 0
}

// Sent returns how many requests were counted since the last change.
func (s *Intervals) Sent() int { return s.spans[len(s.spans)-1].sent }
