package hey

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen"
	"lapse/timeline"
)

// calibrate takes shorter steps than a user's.
func calibrate(t *testing.T, url string, workers int, length time.Duration) (Calibration, error) {
	t.Helper()
	c := configOf(url, workers)
	if err := c.ask(t.Context(), stepTimeout*time.Second); err != nil {
		return Calibration{}, err
	}
	return c.find(t.Context(), length, c.step)
}

func configOf(url string, workers int) CalibrateConfig {
	return CalibrateConfig{Probe: loadgen.Probe{Target: timeline.Target{URL: url}}, Workers: workers}
}

// limitedServer has a capacity of servers ÷ each, far below that of this machine.
func limitedServer(t *testing.T, servers int, each time.Duration) string {
	free := make(chan struct{}, servers)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		free <- struct{}{}
		defer func() { <-free }()
		time.Sleep(each) // the work
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// calibrated returns what is concluded of a target of which each step is known: the nth, from 0, with so many workers.
func calibrated(t *testing.T, workers int, model func(n, workers int, perRequest bool) Step) Calibration {
	t.Helper()
	steps := 0
	got, err := CalibrateConfig{Workers: workers}.find(t.Context(), time.Second, func(_ context.Context, _ time.Duration, workers int, perRequest bool) (Step, bool, error) {
		s := model(steps, workers, perRequest)
		s.Workers, s.PerRequest = workers, perRequest
		steps++
		return s, true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// limited answers so many requests at once, each in 10 ms.
func limited(servers int) func(n, workers int, perRequest bool) Step {
	return func(_, workers int, _ bool) Step {
		rate := 100 * float64(min(workers, servers))
		return Step{Requests: int(rate), Rate: rate, Duration: time.Second}
	}
}

func TestCalibrateFindsAKnownCapacity(t *testing.T) {
	got := calibrated(t, 64, limited(4))
	if got.Kept != (Capacity{400, 400, 400, repeats}) || got.PerRequest != (Capacity{400, 400, 400, perRequestRepeats}) || len(got.Ladder) != 5 || len(got.Notes) > 0 {
		t.Errorf("%+v", got)
	}
	if len(got.Suggestions) != 2 || got.Suggestions[0].Rate != 2 || got.Suggestions[1].Rate > got.Suggestions[0].Rate {
		t.Errorf("%+v, want 1 %% of 400 over 2 targets", got.Suggestions)
	}
}

// The true capacity is known: 4 at a time, 10 ms each, make 400 per second. A busy machine makes it less, never more,
// but replies that waited for us may be counted together.
func TestAStepMeasuresNoMoreThanTheCapacity(t *testing.T) {
	layer.Real(t)
	const capacity = 400.0
	url := limitedServer(t, 4, 10*time.Millisecond)
	for _, workers := range []int{1, 4, 16} {
		c := configOf(url, workers)
		s, ok, err := c.step(t.Context(), 300*time.Millisecond, workers, false)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if most := capacity*s.Duration.Seconds() + float64(workers); float64(s.Requests) > most {
			t.Errorf("%+v: more than %v cannot be", s, most)
		}
	}
}

// What was the limit, where it was not the target, is noted.
func TestCalibrateNotesWhatElseWasTheLimit(t *testing.T) {
	failing := func(n, workers int, perRequest bool) Step {
		s := limited(64)(n, workers, perRequest)
		if workers > 2 {
			s.Failed, s.Error = 1, "status 503"
		}
		return s
	}
	busy := func(n, workers int, perRequest bool) Step {
		s := limited(2)(n, workers, perRequest)
		s.Machine = 0.96
		return s
	}
	for _, tt := range []struct {
		workers int
		model   func(n, workers int, perRequest bool) Step
		most    int // workers of the last step, and of the repeated
		best    int
		note    string
	}{
		{2, limited(64), 2, 2, "2 workers did not reach its limit"},
		{64, failing, 4, 2, "at 4 at once, 1 requests failed: status 503"}, // more load would prove nothing but that
		{64, busy, 8, 2, "this machine's processors were all in use"},
	} {
		got := calibrated(t, tt.workers, tt.model)
		if most := got.Ladder[len(got.Ladder)-1].Workers; most != tt.most || got.Repeats[0].Workers != tt.best || len(got.Suggestions) != 2 {
			t.Errorf("up to %d workers, repeated with %d: %+v", most, got.Repeats[0].Workers, got.Suggestions)
		}
		if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], tt.note) {
			t.Errorf("notes %q, want %q", got.Notes, tt.note)
		}
	}
}

// A target that answers well at first, and later with errors or not at all, has shown no capacity: neither a lower
// bound nor a rate.
func TestCalibrateConcludesNothingFromATargetThatFailsLater(t *testing.T) {
	for name, tt := range map[string]struct {
		broken   Step
		from, to int // steps
	}{
		"a quota":       {Step{Failed: 9, Error: "status 429"}, 1, 99},
		"a short stall": {Step{Unanswered: 1}, 2, 4},
	} {
		t.Run(name, func(t *testing.T) {
			got := calibrated(t, 1, func(n, workers int, perRequest bool) Step {
				if n >= tt.from && n < tt.to {
					return tt.broken
				}
				return limited(1)(n, workers, perRequest)
			})
			if got.Kept != (Capacity{}) || len(got.Suggestions) > 0 || !strings.Contains(got.Notes[0], "no rate is suggested: requests failed or stayed unanswered") {
				t.Errorf("%+v, suggested %+v, %q", got.Kept, got.Suggestions, got.Notes)
			}
			if len(got.Repeats) != repeats+perRequestRepeats {
				t.Errorf("%d repeats", len(got.Repeats))
			}
		})
	}
}

// Where time is over before a step with a connection for each request, its cost is not known.
func TestCalibrateSuggestsNothingWithoutTimeForAllSteps(t *testing.T) {
	steps := 0
	got, err := CalibrateConfig{Workers: 1}.find(t.Context(), time.Second, func(context.Context, time.Duration, int, bool) (Step, bool, error) {
		steps++
		return Step{Workers: 1, Requests: 100, Rate: 100}, steps <= 1+repeats, nil
	})
	if err != nil || got.Kept.Steps != repeats || got.PerRequest.Steps != 0 || len(got.Suggestions) > 0 || !strings.Contains(got.Notes[0], "longer --duration") {
		t.Errorf("%+v, %v", got, err)
	}
}

// A status of 400 and more is a failure, with its code.
func TestStepTellsWhatFailed(t *testing.T) {
	layer.Real(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer s.Close()
	c := configOf(s.URL, 4)
	got, ok, err := c.step(t.Context(), time.Second, 4, false)
	if err != nil || !ok || got.Failed == 0 || got.Error != "status 503" || got.Requests > 0 {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
}

// Requests that hang do not show in the latencies of the others.
func TestStepTellsWhatWasLeftUnanswered(t *testing.T) {
	layer.Real(t)
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if n := asked.Add(1); n == 5 || n == 6 {
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	c := configOf(s.URL, 4)
	got, ok, err := c.step(t.Context(), 2*time.Second, 4, false) // longer than this machine stands still
	if err != nil || !ok || got.Unanswered != 2 || got.Failed != 0 || got.Requests == 0 {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
}

func TestCalibrateRefusesWhatDoesNotAnswer(t *testing.T) {
	layer.Real(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	if _, err := calibrate(t, closed.URL, 4, time.Second); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	forbidden := httptest.NewServer(http.NotFoundHandler())
	defer forbidden.Close()
	if _, err := calibrate(t, forbidden.URL, 4, time.Second); err == nil || !strings.Contains(err.Error(), "status 404") {
		t.Errorf("%v", err)
	}
}

// The time that is reported is the time that was waited, and there is no second wait.
func TestCalibrateSaysHowLongItWaitedForNoAnswer(t *testing.T) {
	layer.Real(t)
	release := make(chan struct{})
	var asked atomic.Int64
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1); <-release }))
	defer silent.Close()
	defer close(release)
	c := configOf(silent.URL, 4)
	if err := c.ask(t.Context(), 300*time.Millisecond); err == nil || err.Error() != "it did not answer a single request within 300ms" || asked.Load() > 1 {
		t.Errorf("%v, after %d requests", err, asked.Load())
	}
}

func TestCalibrateEndsWhenTold(t *testing.T) {
	layer.Real(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	c := configOf(limitedServer(t, 1, time.Millisecond), 64)
	c.Duration = 17 * time.Second
	c.Progress = func(Step) { cancel(why) }
	began := time.Now()
	if _, err := Calibrate(ctx, c); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestCalibrateChecksItsBounds(t *testing.T) {
	good := CalibrateConfig{Probe: loadgen.Probe{Target: timeline.Target{URL: "http://web/"}}, Workers: 8, Duration: time.Minute}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*CalibrateConfig){
		"0 workers":        func(c *CalibrateConfig) { c.Workers = 0 },
		"from 1 to 5000":   func(c *CalibrateConfig) { c.Workers = 5001 },
		"too short for 12": func(c *CalibrateConfig) { c.Duration = 13 * time.Second },
		"not one of":       func(c *CalibrateConfig) { c.Probe.URL = "ftp://web/" },
		"http and https":   func(c *CalibrateConfig) { c.Probe.URL = "tcp://web:80" },
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestStepCountsWhatFailed(t *testing.T) {
	s, err := readStep(&load{}, []byte(`{"Lats":[0.1,0.2,0.1],"Offsets":[7,7.5,7.8],"StatusCodes":[200,500,301],"ErrorDist":{"Get \"http://web/\": EOF":1,"Get \"http://web/\": context canceled":9}}`), time.Second, 100)
	if err != nil || s.Failed != 2 || s.Unanswered != 9 || s.Requests != 1 || s.Duration != 800*time.Millisecond || s.Rate != 1.25 || s.Error != "EOF" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{``, `{"Lats":[1],"Offsets":[],"StatusCodes":[200]}`} {
		if _, err := readStep(&load{}, []byte(bad), time.Second, 1); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

func TestQuantileIsTheLeastValueThatTheShareDoesNotExceed(t *testing.T) {
	for _, test := range []struct {
		values []time.Duration
		q      float64
		want   time.Duration
	}{
		{nil, 0.5, 0},
		{[]time.Duration{7}, 0.99, 7},
		{[]time.Duration{1, 2}, 0.5, 1},
		{[]time.Duration{1, 2, 3}, 0.5, 2},
		{[]time.Duration{1, 2, 3, 4}, 0.99, 4},
	} {
		if got := quantile(test.values, test.q); got != test.want {
			t.Errorf("quantile %v of %v is %v, want %v", test.q, test.values, got, test.want)
		}
	}
}

func TestCalibrateFollowsNoRedirect(t *testing.T) {
	var loaded atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { loaded.Add(1) }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/login", http.StatusFound))
	defer s.Close()
	_, err := calibrate(t, s.URL, 2, 300*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), elsewhere.URL+"/login") || loaded.Load() != 0 {
		t.Errorf("%v, and %d requests to where it sends", err, loaded.Load())
	}
}

func TestLadderDoublesUpToTheMost(t *testing.T) {
	for most, want := range map[int][]int{1: {1}, 2: {1, 2}, 3: {1, 2, 3}, 64: {1, 2, 4, 8, 16, 32, 64}} {
		if got := ladder(most); !slices.Equal(got, want) {
			t.Errorf("up to %d: %v, want %v", most, got, want)
		}
	}
}

func TestSuggestedRatesTogetherCostOnePercent(t *testing.T) {
	for _, tt := range []struct {
		kept, perRequest float64
		targets          []string
		rate             float64
		limit            time.Duration
	}{
		{10_000, 10_000, []string{"reused"}, 100, 10 * time.Millisecond},
		{40_000, 40_000, []string{"new", "reused"}, 200, 5 * time.Millisecond},
		{40_000, 10_000, []string{"new", "reused"}, 80, 12500 * time.Microsecond},
		{40_000, 10_000, []string{"new", "reused", "direct"}, 44.4, 22522523},
		{400, 400, []string{"new", "reused"}, 2, 500 * time.Millisecond},
		{0.5, 0.5, []string{"new"}, 0.005, 200 * time.Second},
	} {
		got := suggest(tt.kept, tt.perRequest, tt.targets)
		if got.Rate != tt.rate || got.DetectionLimit != tt.limit {
			t.Errorf("%v: %v/s, %v; want %v/s, %v", tt, got.Rate, got.DetectionLimit, tt.rate, tt.limit)
		}
		cost := 0.0
		for _, target := range tt.targets {
			cost += got.Rate / map[bool]float64{true: tt.kept, false: tt.perRequest}[target == "reused"]
		}
		if cost > probeCost*(1+1e-9) {
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
	if from != 5200*ms || to != 6*time.Second {
		t.Errorf("%v to %v", from, to)
	}
	if from, to = countable(begins, ends, 500*ms, false); from != 5100*ms || to != 5500*ms {
		t.Errorf("what is answered after the step's end counts: %v to %v", from, to)
	}
	if from, to = countable(begins, ends, time.Hour, true); to != 5910*ms {
		t.Errorf("limited by requests: %v to %v", from, to)
	}
	if from, to = countable(nil, nil, time.Second, false); from != 0 || to != 0 {
		t.Errorf("nothing: %v to %v", from, to)
	}
}

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

func TestMoreWorkersAreTriedWhileTheyBringMore(t *testing.T) {
	for _, tt := range []struct {
		name     string
		steps    []Step
		levelled bool
		best     float64
	}{
		{"no step", nil, false, 0},
		{"one step", rates(100), false, 100},
		{"climbing", rates(100, 200, 400), false, 400},
		{"one doubling without gain", rates(100, 198, 390, 400), false, 400},
		{"two doublings without gain", rates(100, 198, 390, 400, 395), true, 400},
		{"a dip, then more", rates(100, 95, 300), false, 300},
		{"serial from the start", rates(500, 505, 498), true, 505},
		{"slower with more workers", rates(500, 300, 200), true, 500},
		{"gain of a tenth", rates(100, 111, 124), false, 124},
		{"something failed", rates(100, 200, -250), false, 200},
		{"all failed", rates(-100), false, 0},
	} {
		if got := levelled(tt.steps); got != tt.levelled {
			t.Errorf("%s: levelled %v", tt.name, got)
		}
		if got := best(tt.steps).Rate; got != tt.best {
			t.Errorf("%s: best %v, want %v", tt.name, got, tt.best)
		}
	}
}

func TestCapacityIsTheMedianOfGoodSteps(t *testing.T) {
	for _, tt := range []struct {
		steps []Step
		want  Capacity
	}{
		{nil, Capacity{}},
		{rates(400, 380, 410), Capacity{400, 380, 410, 3}},
		{rates(100, 200), Capacity{150, 100, 200, 2}},
		{rates(400, -300), Capacity{}},
		{rates(400, 0, 380), Capacity{}},
	} {
		if got := capacity(tt.steps); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.steps, got, tt.want)
		}
	}
}
