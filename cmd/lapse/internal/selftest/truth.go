package selftest

import (
	"slices"
	"time"

	"lapse/loadgen/faultserver"
)

// A Truth is an outage as it happened, or several that are to show as one window.
type Truth struct {
	Outages    []Outage
	Start, End faultserver.Span // an instant each, as exactly as the server knows it
}

// Class is that of its outages, the first one's if they differ.
func (t Truth) Class() Class { return t.Outages[0].Class }

// Length is how long it lasted at least.
func (t Truth) Length() time.Duration { return max(0, t.End.From-t.Start.To) }

// touches reports whether some of the time between two instants belongs to it, as far as is known.
func (t Truth) touches(from, to time.Duration) bool { return from <= t.End.To && t.Start.From <= to }

// Truths are what became of a plan. refusals are the times in which nobody listened, in any order, one for each planned.
// What is no outage has none.
func Truths(plan Plan, refusals []faultserver.Outage) []Truth {
	refusals = slices.SortedFunc(slices.Values(refusals), byTime)
	var truths []Truth
	for _, o := range plan {
		if o.Class == Goodbye {
			continue
		}
		t := Truth{
			Outages: []Outage{o},
			Start:   faultserver.Span{From: o.From, To: o.From},
			End:     faultserver.Span{From: o.To, To: o.To},
		}
		if o.Class == Refused && len(refusals) > 0 {
			t.Start, t.End = refusals[0].Close, refusals[0].Open
			refusals = refusals[1:]
		}
		truths = append(truths, t)
	}
	return truths
}

// Joined are truths as they show where failures less than join apart are one window. Slow ones have windows of their own,
// which nothing is joined with here.
func Joined(truths []Truth, join time.Duration) []Truth {
	var joined []Truth
	last := -1 // the last one in which requests failed
	for _, t := range truths {
		if last >= 0 && t.Class().failing() && t.Start.From-joined[last].End.To < join {
			joined[last].Outages = append(slices.Clip(joined[last].Outages), t.Outages...)
			joined[last].End = t.End
			continue
		}
		joined = append(joined, t)
		if t.Class().failing() {
			last = len(joined) - 1
		}
	}
	return joined
}
