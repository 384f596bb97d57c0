package selftest

import (
	"math"
	"slices"
	"time"

	"lapse/correlate/model"
)

// A Report is how a run compares with the truth.
type Report struct {
	Seed     uint64        `json:"seed"`
	Rate     float64       `json:"rate"`
	Duration time.Duration `json:"duration"`
	Coverage float64       `json:"coverage"` // the worst target's

	Result   model.Result `json:"result"`
	ExitCode int          `json:"exitCode"`
	Promises []Promise    `json:"promises"`

	Classes []ClassRow  `json:"classes"`
	Edges   []EdgeRow   `json:"edges"`
	Limits  []Limit     `json:"limits"`
	Wrong   []Wrong     `json:"wrong"`
	Plan    []PlannedAt `json:"plan"`
}

// MinCoverage is the share of the time that must have been observed for the comparison to count. On a machine that
// stood still, it says something of the machine.
const MinCoverage = 0.999

// A Promise is one thing that the tool holds true.
type Promise struct {
	Text    string  `json:"text"`
	Outcome Outcome `json:"outcome"`
	Found   string  `json:"found"` // figures

	always bool // to be kept also where too little was observed
}

// Outcome says what became of a promise.
type Outcome string

const (
	Kept      Outcome = "kept"
	Broken    Outcome = "broken"
	Undecided Outcome = "undecided" // what was seen decides it neither way, or nothing was to be seen
)

// PlannedAt is an outage that was planned, for those who repeat it.
type PlannedAt struct {
	Class Class         `json:"class"`
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
	Share float64       `json:"share,omitzero"`
}

// ClassRow is what was found of one class of outages. Fates count by outage and target.
type ClassRow struct {
	Class    Class         `json:"class"`
	Outages  int           `json:"outages"`
	Shortest time.Duration `json:"shortest"`
	Longest  time.Duration `json:"longest"`
	Fates    []FateCount   `json:"fates"`    // by target
	Compared int           `json:"compared"` // outages whose counts were: all of them was observed
	Failed   int           `json:"failed"`   // requests in those, by the recording; of slow ones: late answers
	Least    int           `json:"least"`    // by the server, at least; −1 if it cannot know
	Most     int           `json:"most"`
}

// FateCount counts one target's sights of a class.
type FateCount struct {
	Target     string `json:"target"`
	Found      int    `json:"found"`
	Short      int    `json:"short"`
	Unobserved int    `json:"unobserved"`
	Between    int    `json:"between"`
	Missed     int    `json:"missed"`
}

// EdgeRow is how well the edges of one class were bracketed, over all targets.
type EdgeRow struct {
	Class       Class `json:"class"`
	Start       Side  `json:"start"`
	End         Side  `json:"end"`
	Exact       Held  `json:"exact"`
	Statistical Held  `json:"statistical"`
	Open        int   `json:"open"` // edges beside unobserved time, where nothing is claimed

	ExactSide       Side `json:"exactSide"`       // of the exact brackets, at either side
	StatisticalSide Side `json:"statisticalSide"` // of the statistical ones
}

// A Wrong is one thing the tool got wrong, for those who look into it.
type Wrong struct {
	Target string        `json:"target"`
	Class  Class         `json:"class,omitzero"` // of the outage; absent if there was none
	What   string        `json:"what"`
	At     time.Duration `json:"at"` // the truth's, else the window's
	Join   time.Duration `json:"join"`

	Bracket model.Instant `json:"bracket,omitzero"`
	Basis   model.Basis   `json:"basis,omitzero"`
	Detail  string        `json:"detail,omitzero"`
}

// Side is one side's edges: how far the middle of the bracket was from the truth, and how wide it was. Both are absent if
// there were none.
type Side struct {
	Error *Spread `json:"error,omitzero"`
	Width *Spread `json:"width,omitzero"`
}

// Spread is the median and the largest of some lengths.
type Spread struct {
	P50 time.Duration `json:"p50"`
	Max time.Duration `json:"max"`
}

// Held counts brackets and those that hold the truth.
type Held struct {
	Held  int `json:"held"`
	Total int `json:"total"`
}

// A Limit is how short an outage of every request a target still sees.
type Limit struct {
	Target      string        `json:"target"`
	Interval    time.Duration `json:"interval"`             // between two requests
	Resolution  time.Duration `json:"resolution"`           // what the run itself says may escape it
	LongestLost time.Duration `json:"longestLost,omitzero"` // the longest one that was observed and not seen; absent if none
	AlwaysFrom  time.Duration `json:"alwaysFrom,omitzero"`  // the shortest one from which on all were found; absent if none was
}

// spread returns nil for no length.
func spread(of []time.Duration) *Spread {
	if len(of) == 0 {
		return nil
	}
	slices.Sort(of)
	return &Spread{P50: of[len(of)/2], Max: of[len(of)-1]}
}

// pValue is the probability that brackets of which each misses the truth in 1 of 100 cases miss it as often as these did, or
// more often: a one-sided binomial test.
func (h Held) pValue() float64 {
	fewer := 0.0
	for k := range h.Total - h.Held {
		fewer += binomial(h.Total, k, 0.01)
	}
	return 1 - fewer
}

// binomial is the probability of k successes in n trials, each of which succeeds with probability p, 0 < p < 1.
func binomial(n, k int, p float64) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}
