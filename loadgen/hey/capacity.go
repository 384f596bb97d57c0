package hey

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// This file is what `lapse calibrate` concludes from its steps. It sends nothing.

const (
	worthwhile = 1.10 // a doubling of the workers that raises the throughput by less than this factor did not help
	atKnee     = 0.90 // share of the highest throughput that is reached at the knee
	clientBusy = 0.80 // share of the processors from which on we may have been the bottleneck, if we used it,
	allBusy    = 0.95 // and if everything on this machine did

	// ProbeCost is the share of a target's capacity that its probes may take.
	ProbeCost = 0.01
)

// A Step is one closed-loop measurement: Workers send, each its next request when the last one has ended.
type Step struct {
	Workers    int           `json:"workers"`
	Fresh      bool          `json:"fresh"`               // a connection for each request, not kept ones
	Duration   time.Duration `json:"duration"`            // of the part that counts: without the warm-up and the end, in which some have no work
	Requests   int           `json:"requests"`            // good replies in that part
	Rate       float64       `json:"rate"`                // Requests ÷ Duration, per second
	P50        time.Duration `json:"p50,omitzero"`        // of all good replies, from when they were sent
	P99        time.Duration `json:"p99,omitzero"`        //
	Failed     int           `json:"failed"`              // requests without a reply, or with a status of 400 and more
	Error      string        `json:"error,omitzero"`      // the commonest of these
	Unanswered int           `json:"unanswered,omitzero"` // requests cut off, for they had no reply a second after the step's end
	CPU        float64       `json:"cpu,omitzero"`        // share of the processors that this process used, 0 to 1; absent if not known
	Machine    float64       `json:"machine,omitzero"`    // share of this machine's processors that anything used; absent if not known
}

// A Throughput is what the target answered well at its limit, in requests per second: the least and the most of several
// steps. AtLeast says that something other than the target may have been the limit. Broken says that it did not answer all
// steps well: then it has shown no capacity, for what it answered in the others it can not go on answering.
type Throughput struct {
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Steps   int     `json:"steps"`
	AtLeast string  `json:"atLeast,omitzero"` // why the true capacity may be higher; empty if it is not
	Broken  string  `json:"broken,omitzero"`  // what went wrong in which of the steps; empty if nothing did
}

// ladder doubles the number of workers from 1 up to most.
func ladder(most int) []int {
	var rungs []int
	for n := 1; n < most; n *= 2 {
		rungs = append(rungs, n)
	}
	return append(rungs, most)
}

// enough reports whether more workers are not worth trying: something failed, or neither of the last two doublings
// brought a tenth more than the best before it.
//
//	rates 100 198 390 400 395   →   enough: 400 and 395 are less than 390 × 1.1
func enough(steps []Step) bool {
	n := len(steps)
	if n > 0 && steps[n-1].Failed > 0 {
		return true
	}
	return n >= 3 && !gained(steps[:n-1]) && !gained(steps)
}

// gained reports whether the last step was worth it.
func gained(steps []Step) bool {
	n := len(steps)
	return n == 1 || steps[n-1].Rate >= worthwhile*best(steps[:n-1]).Rate
}

// best is the step with the highest throughput among those without a failure; a zero Step if there is none.
func best(steps []Step) Step {
	var top Step
	for _, s := range steps {
		if s.Failed == 0 && s.Rate > top.Rate {
			top = s
		}
	}
	return top
}

// knee is the smallest number of workers that reaches 90 % of the highest throughput: beyond it more of
// them only wait longer. It is 0 if no step was without failures.
func knee(steps []Step) int {
	top := best(steps).Rate
	for _, s := range steps {
		if s.Failed == 0 && s.Rate > 0 && s.Rate >= atKnee*top {
			return s.Workers
		}
	}
	return 0
}

// throughput sums up repetitions of one step.
func throughput(repeats []Step) Throughput {
	if len(repeats) == 0 {
		return Throughput{}
	}
	t := Throughput{Min: math.Inf(1), Steps: len(repeats), Broken: broken(repeats)}
	for _, s := range repeats {
		t.Min, t.Max = min(t.Min, s.Rate), max(t.Max, s.Rate)
		if t.Broken == "" && (s.CPU >= clientBusy || s.Machine >= allBusy) {
			t.AtLeast = "this machine's processors were the limit"
		}
	}
	return t
}

// broken says in how many steps nothing was answered or requests failed; it is empty if there are none.
func broken(steps []Step) string {
	silent, failing, errors := 0, 0, map[string]int64{}
	for _, s := range steps {
		switch {
		case s.Failed > 0:
			failing++
			errors[s.Error] += int64(s.Failed)
		case s.Rate <= 0:
			silent++
		}
	}
	var parts []string
	if silent > 0 {
		parts = append(parts, "nothing was answered in "+ofSteps(silent, len(steps)))
	}
	if failing > 0 {
		parts = append(parts, "requests failed in "+ofSteps(failing, len(steps))+": "+commonest(errors))
	}
	return strings.Join(parts, ", and ")
}

func ofSteps(n, all int) string {
	if all == 1 {
		return "1 of 1 step"
	}
	return fmt.Sprintf("%d of %d steps", n, all)
}

// A Suggestion is a rate that costs the target no more than [ProbeCost] of what it can answer.
type Suggestion struct {
	Targets        []string      `json:"targets"`        // what a run starts, each at this rate
	Rate           float64       `json:"rate"`           // requests per second, for each
	DetectionLimit time.Duration `json:"detectionLimit"` // an outage of all requests shorter than this can go unseen at a target
}

// suggest divides what the probes may cost among them: a request on a kept connection costs the kept-th part of a
// second of the target's time, one on a fresh connection the fresh-th. Both are capacities in requests per second.
func suggest(kept, fresh float64, targets ...string) Suggestion {
	cost := 0.0
	for _, t := range targets {
		if t == "reused" {
			cost += 1 / kept
		} else {
			cost += 1 / fresh
		}
	}
	rate := roundDown(ProbeCost / cost)
	return Suggestion{Targets: targets, Rate: rate, DetectionLimit: time.Duration(math.Ceil(1e9 / rate))}
}

// roundDown keeps three digits.
func roundDown(x float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(x))-2)
	digits := math.Floor(x/step + 1e-9)
	if step >= 1 {
		return digits * step
	}
	return digits / math.Round(1/step) // exact where step itself is not
}

// countable is the part of a step that counts: all workers are at work in it. It begins when a fifth of the time is over,
// for connections are made and caches filled before; it ends with the step's time, or, where the number of requests was
// the limit, when nine in ten had been answered, for some workers have done all theirs then.
//
// begins and ends are when requests began and were answered, on one clock.
func countable(begins, ends []time.Duration, length time.Duration, limited bool) (from, to time.Duration) {
	if len(begins) == 0 {
		return 0, 0
	}
	begin := slices.Min(begins)
	to = begin + length
	if limited {
		sorted := slices.Sorted(slices.Values(ends))
		to = min(to, sorted[len(sorted)*9/10])
	}
	return begin + (to-begin)/5, to
}

// answeredIn counts who was answered in (from, to].
func answeredIn(ends []time.Duration, from, to time.Duration) int {
	n := 0
	for _, end := range ends {
		if end > from && end <= to {
			n++
		}
	}
	return n
}
