package selftest

import (
	"slices"

	"lapse/correlate/truth"
	"lapse/loadgen/faultserver"
)

// An Outage is a planned one as it happened.
type Outage struct {
	Planned
	truth.Outage
}

// Outages returns the outages of a plan as they happened. refusals are the times without a listener: one for each that
// was planned, in any order. A goodbye is no outage.
func Outages(plan Plan, refusals []faultserver.Outage) []Outage {
	refusals = slices.SortedFunc(slices.Values(refusals), byTime)
	var outages []Outage
	for _, p := range plan {
		if p.Class == Goodbye {
			continue
		}
		happened := truth.Outage{Start: truth.At(p.From), End: truth.At(p.To), Slow: p.Class == Slow}
		o := Outage{Planned: p, Outage: happened}
		if p.Class == Refused && len(refusals) > 0 {
			o.Start, o.End = truth.Span(refusals[0].Close), truth.Span(refusals[0].Open)
			refusals = refusals[1:]
		}
		outages = append(outages, o)
	}
	return outages
}
