package trend

import (
	"errors"

	"github.com/aclements/go-moremath/stats"

	"lapse/internal/history"
)

// A Comparison says how the runs of a release differ from those of the one before it. A figure is less or more only if
// it is so wherever in their error bars the figures of the runs are. The test is Mann and Whitney's, of runs.
type Comparison struct {
	Release string `json:"release,omitzero"`
	Before  string `json:"before,omitzero"`
	Runs    [2]int `json:"runs"`   // that measured, of both
	Enough  bool   `json:"enough"` // both have [CompareRuns]

	Failed   *Change `json:"failed,omitzero"`   // failed requests of a run; absent unless there are enough runs
	Downtime *Change `json:"downtime,omitzero"` // of a run
}

// A Direction is how a figure changed.
type Direction string

const (
	Less    Direction = "less"
	More    Direction = "more"
	Unclear Direction = "unclear" // no difference shows
)

// A Change is how a figure changed. If nothing had changed, a P so small or smaller would come about with a probability
// of P.
type Change struct {
	Direction Direction `json:"direction"`
	P         float64   `json:"p"`
}

func compare(before, release *Release) Comparison {
	c := Comparison{Release: release.Name, Before: before.Name}
	c.Runs = [2]int{measured(release.lines), measured(before.lines)}
	if c.Enough = min(c.Runs[0], c.Runs[1]) >= CompareRuns; c.Enough {
		c.Failed = change(failures(before.lines), failures(release.lines))
		c.Downtime = change(downtimes(before.lines), downtimes(release.lines))
	}
	return c
}

func measured(lines []*history.Line) (n int) {
	for _, l := range lines {
		if l.Sent > 0 {
			n++
		}
	}
	return n
}

// change returns how b differs from a.
func change(a, b []bracket) *Change {
	loA, hiA := split(a)
	loB, hiB := split(b)
	c := Change{Direction: Unclear, P: 1}
	for _, claim := range []Change{{Less, lessBy(hiB, loA)}, {More, lessBy(hiA, loB)}} {
		if claim.P < c.P {
			c.P = claim.P
		}
		if claim.P <= 2*tail {
			c.Direction = claim.Direction
		}
	}
	return &c
}

// lessBy returns the probability with which two samples of one distribution differ at least as much, in either
// direction, as small is less than large. It doubles the one-sided probability: with ties and unequal numbers U is not
// symmetric, which [stats.LocationDiffers], and so benchmath, takes it to be. Of 1 1 1 1 1 and 0 1 1 0 it returns 0.
func lessBy(small, large []float64) float64 {
	result, err := stats.MannWhitneyUTest(small, large, stats.LocationLess)
	if errors.Is(err, stats.ErrSamplesEqual) {
		return 1
	}
	return min(1, 2*result.P)
}
