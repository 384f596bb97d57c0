package selftest

import (
	"slices"
	"time"

	"lapse/correlate/model"
)

// A Report compares a run with what happened.
type Report struct {
	Protocol string        `json:"protocol"`
	Seed     uint64        `json:"seed"`
	Rate     float64       `json:"rate"`
	Duration time.Duration `json:"duration"`
	Coverage float64       `json:"coverage"` // the worst target's

	Result   model.Result `json:"result"`
	ExitCode int          `json:"exitCode"`
	Promises []Promise    `json:"promises"`

	Classes []ClassRow  `json:"classes"`
	Edges   []EdgeRow   `json:"edges"`
	Off     []OffBy     `json:"offBy"`
	Limits  []Limit     `json:"limits"`
	Wrong   []Wrong     `json:"wrong"`
	Plan    []PlannedAt `json:"plan"`
}

// MinCoverage is the share of the time that must have been observed for the comparison to count: below it, the
// machine was too busy.
const MinCoverage = 0.999

// A Promise is one thing that the tool claims.
type Promise struct {
	Text    string  `json:"text"`
	Outcome Outcome `json:"outcome"`
	Found   string  `json:"found"` // figures

	unconditional bool // counts also where too little was observed
}

// Outcome says what became of a promise.
type Outcome string

const (
	Kept      Outcome = "kept"
	Broken    Outcome = "broken"
	Undecided Outcome = "undecided" // there was nothing, or not enough, to judge
)

// PlannedAt is an outage that was planned, for those who repeat it.
type PlannedAt struct {
	Class Class         `json:"class"`
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
	Share float64       `json:"share,omitzero"`
}

// ClassRow counts what was found of one class of outages. Fates are counted by outage and target.
type ClassRow struct {
	Class    Class         `json:"class"`
	Outages  int           `json:"outages"`
	Shortest time.Duration `json:"shortest"`
	Longest  time.Duration `json:"longest"`
	Fates    []FateCount   `json:"fates"`    // by target
	Compared int           `json:"compared"` // outages whose counts were compared: all of them was observed
	Failed   int           `json:"failed"`   // requests in those, by the recording; of slow ones: late answers
	Least    int           `json:"least"`    // by the server, at least; −1 if it cannot know
	Most     int           `json:"most"`
}

// FateCount counts what one target reports of the outages of a class.
type FateCount struct {
	Target     string `json:"target"`
	Found      int    `json:"found"`
	Short      int    `json:"short"`
	Unobserved int    `json:"unobserved"`
	Between    int    `json:"between"`
	Missed     int    `json:"missed"`
}

func (c *FateCount) add(f Fate) {
	switch f {
	case Found:
		c.Found++
	case Short:
		c.Short++
	case Unobserved:
		c.Unobserved++
	case Between:
		c.Between++
	case Missed:
		c.Missed++
	}
}

func (c *FateCount) sum(other FateCount) {
	c.Found += other.Found
	c.Short += other.Short
	c.Unobserved += other.Unobserved
	c.Between += other.Between
	c.Missed += other.Missed
}

// EdgeRow says how well the edges of one class were bracketed, over all targets.
type EdgeRow struct {
	Class       Class `json:"class"`
	Start       Side  `json:"start"`
	End         Side  `json:"end"`
	Exact       Held  `json:"exact"`
	Statistical Held  `json:"statistical"`
	Open        int   `json:"open"` // edges without an outer bound, beside unobserved time
}

// OffBy says how far off edges were, at both sides, in one group of outages.
type OffBy struct {
	Where string `json:"where"`
	Side
}

// A Wrong is one thing the tool got wrong, for those who look into it.
type Wrong struct {
	Target string        `json:"target"`
	Class  Class         `json:"class,omitzero"` // of the outage; absent if there was none
	What   string        `json:"what"`
	At     time.Duration `json:"at"` // the truth's, else the window's

	Bracket model.Instant `json:"bracket,omitzero"`
	Basis   model.Basis   `json:"basis,omitzero"`
}

// Side has the distances from the middle of brackets to the truth, and the widths of brackets. Both are absent if
// there were no brackets.
type Side struct {
	Error *Spread `json:"error,omitzero"`
	Width *Spread `json:"width,omitzero"`
}

// Spread is the median and the largest of some lengths.
type Spread struct {
	P50 time.Duration `json:"p50"`
	Max time.Duration `json:"max"`
}

// spread returns nil for no length.
func spread(of []time.Duration) *Spread {
	if len(of) == 0 {
		return nil
	}
	slices.Sort(of)
	return &Spread{P50: of[len(of)/2], Max: of[len(of)-1]}
}

// Held counts brackets and those that hold the truth.
type Held struct {
	Held  int `json:"held"`
	Total int `json:"total"`
}

func (h *Held) sum(other Held) {
	h.Held += other.Held
	h.Total += other.Total
}

func (h *Held) add(held bool) {
	h.Total++
	if held {
		h.Held++
	}
}

// A Limit says how short an outage of every request may be for a target to see it.
type Limit struct {
	Target      string        `json:"target"`
	Interval    time.Duration `json:"interval"`             // between two requests
	Resolution  time.Duration `json:"resolution"`           // what the run itself says it may have missed
	LongestLost time.Duration `json:"longestLost,omitzero"` // the longest that was observed and not seen; absent: none
	AlwaysFrom  time.Duration `json:"alwaysFrom,omitzero"`  // all that were longer were found; absent: none was found
}
