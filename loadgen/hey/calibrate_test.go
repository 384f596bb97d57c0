package hey

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lapse/loadgen"
	"lapse/timeline"
)

// calibrate takes shorter steps than a user's.
func calibrate(t *testing.T, url string, workers int, length time.Duration, told func(Step)) (Calibration, error) {
	t.Helper()
	c := CalibrateConfig{Probe: loadgen.Probe{Target: timeline.Target{URL: url}}, Workers: workers, Told: told}
	k := calibrator{CalibrateConfig: c, patience: stepTimeout * time.Second, length: length}
	return k.run(t.Context())
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

// calibrated is what is concluded of a target of which each step is known: the nth, from 0, with so many workers.
func calibrated(t *testing.T, workers int, model func(n, workers int, fresh bool) Step) Calibration {
	t.Helper()
	k := calibrator{CalibrateConfig: CalibrateConfig{Workers: workers}, length: time.Second}
	steps := 0
	k.load = func(_ context.Context, workers int, fresh bool) (Step, bool, error) {
		s := model(steps, workers, fresh)
		s.Workers, s.Fresh = workers, fresh
		steps++
		return s, true, nil
	}
	got, err := k.find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// limited answers so many requests at once, each in 10 ms.
func limited(servers int) func(n, workers int, fresh bool) Step {
	return func(_, workers int, _ bool) Step {
		rate := 100 * float64(min(workers, servers))
		return Step{Requests: int(rate), Rate: rate, Duration: time.Second}
	}
}

func TestCalibrateFindsAKnownCapacity(t *testing.T) {
	got := calibrated(t, 64, limited(4))
	want := Throughput{Min: 400, Max: 400, Steps: repeats + 1}
	if got.Knee != 4 || got.Kept != want || got.Fresh.Min != 400 || len(got.Ladder) != 5 {
		t.Errorf("%+v", got)
	}
	if len(got.Suggestions) != 2 || got.Suggestions[0].Rate != 2 || got.Suggestions[1].Rate > got.Suggestions[0].Rate {
		t.Errorf("%+v, want 1 %% of 400 over 2 targets", got.Suggestions)
	}
}

// The true capacity is known: 4 at a time, 10 ms each, make 400 per second. A busy machine makes it less, never more, but replies
// that waited for us may be counted together.
func TestAStepMeasuresNoMoreThanTheCapacity(t *testing.T) {
	const capacity = 400.0
	url := limitedServer(t, 4, 10*time.Millisecond)
	for _, workers := range []int{1, 4, 16} {
		k := calibrator{CalibrateConfig: CalibrateConfig{Probe: loadgen.Probe{Target: timeline.Target{URL: url}}, Workers: workers}, length: 300 * time.Millisecond}
		s, ok, err := k.step(t.Context(), workers, false)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if most := capacity*s.Duration.Seconds() + float64(workers); float64(s.Requests) > most {
			t.Errorf("%+v: more than %v cannot be", s, most)
		}
	}
}

// A limit below the knee: the capacity is known to be at least what was seen.
func TestCalibrateSaysWhereItStoppedClimbing(t *testing.T) {
	got := calibrated(t, 2, limited(64))
	if !strings.Contains(got.Kept.AtLeast, "limit of 2 workers") || got.Knee != 2 {
		t.Errorf("%+v", got)
	}
}

// Errors end the climb: more load would prove nothing but that.
func TestCalibrateStopsRaisingAtTheFirstError(t *testing.T) {
	got := calibrated(t, 64, func(n, workers int, fresh bool) Step {
		s := limited(64)(n, workers, fresh)
		if workers > 2 {
			s.Failed, s.Error = 1, "status 503"
		}
		return s
	})
	last := got.Ladder[len(got.Ladder)-1]
	if last.Workers != 4 || got.Repeats[0].Workers != 2 {
		t.Errorf("last step %+v, repeated %+v", last, got.Repeats)
	}
	if !strings.Contains(got.Kept.AtLeast, "at 4 at once") || !strings.Contains(got.Kept.AtLeast, "status 503") {
		t.Errorf("%+v", got.Kept)
	}
}

// A target that answers well at first, and later with errors or not at all, has shown no capacity: neither a lower bound nor a rate.
func TestCalibrateConcludesNothingFromATargetThatFailsLater(t *testing.T) {
	for name, tt := range map[string]struct {
		broken   Step
		from, to int // steps
		want     string
	}{
		"a quota":       {Step{Failed: 9, Error: "status 429"}, 1, 99, "requests failed in 5 of 6 steps: status 429"},
		"a short stall": {Step{Unanswered: 1}, 2, 4, "nothing was answered in 2 of 6 steps"},
	} {
		t.Run(name, func(t *testing.T) {
			got := calibrated(t, 1, func(n, workers int, fresh bool) Step {
				if n >= tt.from && n < tt.to {
					return tt.broken
				}
				return limited(1)(n, workers, fresh)
			})
			if got.Kept.Broken != tt.want || got.Kept.AtLeast != "" || len(got.Suggestions) > 0 {
				t.Errorf("%+v, suggested %+v", got.Kept, got.Suggestions)
			}
			if len(got.Repeats) != repeats+freshRepeats || got.Kept.Steps != repeats+1 {
				t.Errorf("%d repeats, %d counted", len(got.Repeats), got.Kept.Steps)
			}
		})
	}
}

// A status of 400 and more is a failure, with its code.
func TestStepTellsWhatFailed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer s.Close()
	k := calibrator{CalibrateConfig: CalibrateConfig{Probe: loadgen.Probe{Target: timeline.Target{URL: s.URL}}, Workers: 4}, length: time.Second}
	got, ok, err := k.step(t.Context(), 4, false)
	if err != nil || !ok || got.Failed == 0 || got.Error != "status 503" || got.Requests > 0 {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
}

// Requests that hang do not show in the latencies of the others.
func TestStepTellsWhatWasLeftUnanswered(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if n := asked.Add(1); n == 5 || n == 6 {
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	k := calibrator{CalibrateConfig: CalibrateConfig{Probe: loadgen.Probe{Target: timeline.Target{URL: s.URL}}, Workers: 4}, length: 500 * time.Millisecond}
	got, ok, err := k.step(t.Context(), 4, false)
	if err != nil || !ok || got.Unanswered != 2 || got.Failed != 0 || got.Requests == 0 {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
}

func TestCalibrateRefusesWhatDoesNotAnswer(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	if _, err := calibrate(t, closed.URL, 4, time.Second, nil); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	forbidden := httptest.NewServer(http.NotFoundHandler())
	defer forbidden.Close()
	if _, err := calibrate(t, forbidden.URL, 4, time.Second, nil); err == nil || !strings.Contains(err.Error(), "status 404") {
		t.Errorf("%v", err)
	}
}

// The time that is told is the time that was waited, and there is no second wait.
func TestCalibrateSaysHowLongItWaitedForNoAnswer(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Int64
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1); <-release }))
	defer silent.Close()
	defer close(release)
	k := calibrator{
		CalibrateConfig: CalibrateConfig{Probe: loadgen.Probe{Target: timeline.Target{URL: silent.URL}}, Workers: 4},
		patience:        300 * time.Millisecond, length: 200 * time.Millisecond,
	}
	if _, err := k.run(t.Context()); err == nil || err.Error() != "it did not answer a single request within 300ms" || asked.Load() > 1 {
		t.Errorf("%v, after %d requests", err, asked.Load())
	}
}

func TestCalibrateEndsWhenTold(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	c := CalibrateConfig{Probe: loadgen.Probe{Target: timeline.Target{URL: limitedServer(t, 1, time.Millisecond)}}, Workers: 64, Duration: 17 * time.Second}
	c.Told = func(Step) { cancel(why) }
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
	s, err := readStep([]byte(`{"Lats":[0.1,0.2,0.1],"Offsets":[7,7.5,7.8],"StatusCodes":[200,500,301],"ErrorDist":{"Get \"http://web/\": EOF":1,"Get \"http://web/\": context canceled":9}}`), time.Second, 100)
	if err != nil || s.Failed != 2 || s.Unanswered != 9 || s.Requests != 1 || s.Duration != 800*time.Millisecond || s.Rate != 1.25 || s.Error != "EOF" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{``, `{"Lats":[1],"Offsets":[],"StatusCodes":[200]}`} {
		if _, err := readStep([]byte(bad), time.Second, 1); err == nil {
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
		{[]time.Duration{2, 1}, 0.5, 1},
		{[]time.Duration{3, 2, 1}, 0.5, 2},
		{[]time.Duration{4, 3, 2, 1}, 0.99, 4},
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
	_, err := calibrate(t, s.URL, 2, 300*time.Millisecond, nil)
	if err == nil || !strings.Contains(err.Error(), elsewhere.URL+"/login") || loaded.Load() != 0 {
		t.Errorf("%v, and %d requests to where it sends", err, loaded.Load())
	}
}
