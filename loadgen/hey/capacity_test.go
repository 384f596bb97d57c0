package hey

import (
	"slices"
	"testing"
	"time"
)

// rates makes a ladder of steps with doubling workers; a negative rate is one at which something failed.
func rates(list ...float64) []Step {
	var steps []Step
	for i, rate := range list {
		s := Step{Workers: 1 << i, Rate: max(rate, -rate)}
		if rate < 0 {
			s.Failed = 1
		}
		steps = append(steps, s)
	}
	return steps
}

func TestKneeIsTheFewestWorkersThatReachNearlyTheMost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		steps  []Step
		enough bool
		best   float64
		knee   int
	}{
		{"no step", nil, false, 0, 0},
		{"one step", rates(100), false, 100, 1},
		{"climbing", rates(100, 200, 400), false, 400, 4},
		{"one doubling without gain", rates(100, 198, 390, 400), false, 400, 4},
		{"two doublings without gain", rates(100, 198, 390, 400, 395), true, 400, 4},
		{"a dip, then more", rates(100, 95, 300), false, 300, 4},
		{"serial from the start", rates(500, 505, 498), true, 505, 1},
		{"slower with more workers", rates(500, 300, 200), true, 500, 1},
		{"gain of a tenth", rates(100, 111, 124), false, 124, 4},
		{"something failed", rates(100, 200, -250), true, 200, 2},
		{"all failed", rates(-100), true, 0, 0},
		{"nothing answered", rates(0), false, 0, 0},
	} {
		if got := enough(tt.steps); got != tt.enough {
			t.Errorf("%s: enough %v", tt.name, got)
		}
		if got := best(tt.steps).Rate; got != tt.best {
			t.Errorf("%s: best %v, want %v", tt.name, got, tt.best)
		}
		if got := knee(tt.steps); got != tt.knee {
			t.Errorf("%s: knee at %d, want %d", tt.name, got, tt.knee)
		}
	}
}

func TestLadderDoublesUpToTheMost(t *testing.T) {
	for most, want := range map[int][]int{1: {1}, 2: {1, 2}, 3: {1, 2, 3}, 64: {1, 2, 4, 8, 16, 32, 64}} {
		if got := ladder(most); !slices.Equal(got, want) {
			t.Errorf("up to %d: %v, want %v", most, got, want)
		}
	}
}

func TestThroughputIsTheRangeOfItsRepetitions(t *testing.T) {
	got := throughput([]Step{{Rate: 400}, {Rate: 380}, {Rate: 410}})
	if want := (Throughput{Min: 380, Max: 410, Steps: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := throughput([]Step{{Rate: 400, CPU: 0.79}, {Rate: 380, CPU: 0.8}}); got.AtLeast == "" {
		t.Errorf("%+v: our own processors were the limit", got)
	}
	if got := throughput([]Step{{Rate: 400, CPU: 0.3, Machine: 0.94}}); got.AtLeast != "" {
		t.Errorf("%+v: there was processor time left", got)
	}
	if got := throughput([]Step{{Rate: 400, CPU: 0.3, Machine: 0.95}}); got.AtLeast == "" {
		t.Errorf("%+v: others left us no processor time", got)
	}
	if got := throughput(nil); got != (Throughput{}) {
		t.Errorf("%+v of nothing", got)
	}
}

// What a target answered in the steps in which it answered is not what it can answer, if there were others.
func TestStepsWithoutAnswersAreNoLowerBound(t *testing.T) {
	fail := Step{Rate: 300, Failed: 2, Error: "EOF"}
	for _, tt := range []struct {
		steps []Step
		want  Throughput
	}{
		{[]Step{{Rate: 400}, {}, {Rate: 380}}, Throughput{Max: 400, Steps: 3, Broken: "nothing was answered in 1 of 3 steps"}},
		{[]Step{{}, {}}, Throughput{Steps: 2, Broken: "nothing was answered in 2 of 2 steps"}},
		{[]Step{{Rate: 400}, fail}, Throughput{Min: 300, Max: 400, Steps: 2, Broken: "requests failed in 1 of 2 steps: EOF"}},
		{[]Step{{}, fail, {Rate: 400, CPU: 1}}, Throughput{Max: 400, Steps: 3, Broken: "nothing was answered in 1 of 3 steps, and requests failed in 1 of 3 steps: EOF"}},
		{[]Step{{Failed: 9, Error: "status 429"}}, Throughput{Steps: 1, Broken: "requests failed in 1 of 1 step: status 429"}},
	} {
		if got := throughput(tt.steps); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.steps, got, tt.want)
		}
	}
}

func TestSuggestedRatesTogetherCostOnePercent(t *testing.T) {
	for _, tt := range []struct {
		kept, fresh float64
		targets     []string
		rate        float64
		limit       time.Duration
	}{
		{10_000, 10_000, []string{"reused"}, 100, 10 * time.Millisecond},
		{40_000, 40_000, []string{"new", "reused"}, 200, 5 * time.Millisecond},
		{40_000, 10_000, []string{"new", "reused"}, 80, 12500 * time.Microsecond},
		{40_000, 10_000, []string{"new", "reused", "direct"}, 44.4, 22522523},
		{400, 400, []string{"new", "reused"}, 2, 500 * time.Millisecond},
		{0.5, 0.5, []string{"new"}, 0.005, 200 * time.Second},
	} {
		got := suggest(tt.kept, tt.fresh, tt.targets...)
		if got.Rate != tt.rate || got.DetectionLimit != tt.limit {
			t.Errorf("%v: %v/s, %v; want %v/s, %v", tt, got.Rate, got.DetectionLimit, tt.rate, tt.limit)
		}
		cost := 0.0
		for _, target := range tt.targets {
			cost += got.Rate / map[bool]float64{true: tt.kept, false: tt.fresh}[target == "reused"]
		}
		if cost > ProbeCost*(1+1e-9) {
			t.Errorf("%v/s costs %v", got.Rate, cost)
		}
	}
}

func TestOnlyTimeInWhichAllWorkersWorkCounts(t *testing.T) {
	const ms = time.Millisecond
	begins, ends := []time.Duration{}, []time.Duration{}
	for i := range 100 { // one each 10 ms from 5 s on
		begins, ends = append(begins, 5*time.Second+time.Duration(i)*10*ms), append(ends, 5*time.Second+time.Duration(i+1)*10*ms)
	}
	from, to := countable(begins, ends, time.Second, false)
	if from != 5200*ms || to != 6*time.Second || answeredIn(ends, from, to) != 80 {
		t.Errorf("%v to %v: %d", from, to, answeredIn(ends, from, to))
	}
	if from, to = countable(begins, ends, 500*ms, false); from != 5100*ms || to != 5500*ms || answeredIn(ends, from, to) != 40 {
		t.Errorf("what is answered after the step's end counts: %v to %v", from, to)
	}
	if from, to = countable(begins, ends, time.Hour, true); to != 5910*ms {
		t.Errorf("limited by requests: %v to %v", from, to)
	}
	if from, to = countable(nil, nil, time.Second, false); from != 0 || to != 0 {
		t.Errorf("nothing: %v to %v", from, to)
	}
}

func TestProcessorTimesAreRead(t *testing.T) {
	busy, all, ok := parseCPUTimes("cpu  10 1 5 80 4 0 0 0 0 0\ncpu0 10 1 5 80 4 0 0 0 0 0\n")
	if !ok || busy != 16 || all != 100 {
		t.Errorf("%v of %v, %v", busy, all, ok)
	}
	for _, bad := range []string{"", "cpu\n", "cpu  1 2 x 4 5\n", "intr 1 2 3 4 5 6\n"} {
		if _, _, ok := parseCPUTimes(bad); ok {
			t.Errorf("%q passed", bad)
		}
	}
}
