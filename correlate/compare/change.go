package compare

// Direction is where B went from A.
type Direction string

const (
	Less    Direction = "less"
	More    Direction = "more"
	Unclear Direction = "unclear" // no significant change: the bounds overlap
)

// What is compared of a target.
const (
	DiffFailed   = "failed"         // failed ÷ sent
	DiffDowntime = "downtime.total" // request-weighted, of all windows
	DiffLongest  = "window.longest"
	DiffLatency  = "latency." // and p50, p90, p99 or p99.9: of answered requests, from when they were due
)

// Change is one figure of one target in both runs.
type Change struct {
	Target    string    `json:"target,omitzero"` // absent: all that both runs judge
	Metric    string    `json:"metric"`
	A         *Estimate `json:"a,omitzero"` // absent: not measured
	B         *Estimate `json:"b,omitzero"`
	Direction Direction `json:"direction"`
}

// Estimate bounds a figure: nanoseconds, or a ratio from 0 to 1.
type Estimate struct {
	Min    float64  `json:"min"`
	Max    *float64 `json:"max,omitzero"`    // absent: there is no upper bound
	Failed int      `json:"failed,omitzero"` // of a ratio: how many
	Sent   int      `json:"sent,omitzero"`   // of a ratio: of how many
}

func change(metric string, a, b *Estimate) Change {
	c := Change{Metric: metric, A: a, B: b, Direction: Unclear}
	switch {
	case a == nil || b == nil:
	case b.Max != nil && *b.Max < a.Min:
		c.Direction = Less
	case a.Max != nil && *a.Max < b.Min:
		c.Direction = More
	}
	return c
}
