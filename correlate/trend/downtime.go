package trend

import (
	"time"

	"golang.org/x/perf/benchmath"

	"lapse/internal/history"
)

// A bracket bounds a figure of one run.
type bracket struct{ lo, hi float64 }

// unbounded is the upper bound of what has none: longer than any run, and finite, so that the middle of two values is
// too.
const unbounded = float64(100 * 365 * 24 * time.Hour)

// downtimes returns the downtime of each run that measured it.
func downtimes(lines []*history.Line) (all []bracket) {
	for _, l := range lines {
		if l.Downtime == nil {
			continue
		}
		b := bracket{float64(l.Downtime.Total.Min), float64(l.Downtime.Total.Max)}
		if l.Downtime.Open || l.Aborted {
			b.hi = unbounded
		}
		all = append(all, b)
	}
	return all
}

// failures returns how many requests failed in each run that measured.
func failures(lines []*history.Line) (all []bracket) {
	for _, l := range lines {
		if l.Sent == 0 {
			continue
		}
		b := bracket{float64(l.Failed), float64(l.Failed)}
		if l.Unknown() {
			b.hi = unbounded
		}
		all = append(all, b)
	}
	return all
}

// split returns the lower bounds and the upper bounds.
func split(all []bracket) (los, his []float64) {
	for _, b := range all {
		los, his = append(los, b.lo), append(his, b.hi)
	}
	return los, his
}

func downtimeOf(lines []*history.Line) *Downtime {
	all := downtimes(lines)
	if len(all) == 0 {
		return nil
	}
	d := Downtime{Runs: len(all)}
	least, most := all[0].lo, all[0].hi
	for _, b := range all {
		least, most = min(least, b.lo), max(most, b.hi)
	}
	d.Seen = bounds(least, most)
	if len(all) >= MedianRuns {
		los, his := split(all)
		low, high := median(los), median(his)
		d.Median = new(bounds(low.Center, high.Center))
		d.Interval = new(bounds(low.Lo, high.Hi))
	}
	return &d
}

func median(values []float64) benchmath.Summary {
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 1-2*tail)
}

func bounds(lo, hi float64) Bounds {
	b := Bounds{Min: time.Duration(lo)}
	if hi < unbounded/2 {
		b.Max = new(time.Duration(hi))
	}
	return b
}
