package loadgen

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lapse/timeline"
)

// calibrate takes shorter steps than a user's.
func calibrate(t *testing.T, url string, workers int, length time.Duration, told func(Step)) (Calibration, error) {
	t.Helper()
	c := CalibrateConfig{Probe: Probe{Target: timeline.Target{URL: url}}, Workers: workers, Told: told}
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

// The true capacity is known: 4 at a time, 10 ms each, make 400 per second. Sleeping too long makes it less, never more,
// but replies that waited for us may be counted together. 4 workers reach it but for the time their requests
// travel, so that the knee may be found a doubling later. On a machine too busy to tell, that must be said.
func TestCalibrateFindsAKnownCapacity(t *testing.T) {
	const capacity, tolerance = 400.0, 0.25
	var told atomic.Int64
	got, err := calibrate(t, limitedServer(t, 4, 10*time.Millisecond), 64, 300*time.Millisecond, func(Step) { told.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	if int(told.Load()) != len(got.Ladder)+len(got.Repeats) || len(got.Suggestions) != 2 || got.Suggestions[1].Rate > got.Suggestions[0].Rate {
		t.Errorf("%d told: %+v", told.Load(), got)
	}
	for _, s := range slices.Concat(got.Ladder, got.Repeats) {
		if most := capacity + float64(s.Workers)/s.Duration.Seconds(); s.Rate > most {
			t.Errorf("%+v: more than %v cannot be", s, most)
		}
	}
	if got.Kept.AtLeast != "" || got.Fresh.AtLeast != "" {
		t.Skipf("this machine is too busy to tell more, and says so: %+v", got.Kept)
	}
	if got.Knee != 4 && got.Knee != 8 {
		t.Errorf("knee at %d workers, want 4 or 8", got.Knee)
	}
	for name, c := range map[string]Throughput{"kept": got.Kept, "fresh": got.Fresh} {
		if c.Min < (1-tolerance)*capacity || c.Min > c.Max || c.Steps < 2 {
			t.Errorf("%s: %+v, want %v", name, c, capacity)
		}
	}
	if rate := got.Suggestions[0].Rate; math.Abs(rate-capacity/200) > tolerance*capacity/200 {
		t.Errorf("%v, want 1 %% of %v over 2 targets", rate, capacity)
	}
}

// A limit below the knee: the capacity is known to be at least what was seen.
func TestCalibrateSaysWhereItStoppedClimbing(t *testing.T) {
	got, err := calibrate(t, limitedServer(t, 64, 20*time.Millisecond), 2, 120*time.Millisecond, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.Kept.AtLeast, "limit of 2 workers") || got.Knee != 2 {
		t.Errorf("%+v", got)
	}
}

// Errors end the climb: more load would prove nothing but that.
func TestCalibrateStopsRaisingAtTheFirstError(t *testing.T) {
	var running atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer running.Add(-1)
		if running.Add(1) > 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		time.Sleep(10 * time.Millisecond)
	}))
	defer s.Close()
	got, err := calibrate(t, s.URL, 64, 120*time.Millisecond, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := got.Ladder[len(got.Ladder)-1]
	if last.Workers != 4 || last.Failed == 0 || last.Error != "status 503" || got.Repeats[0].Workers != 2 {
		t.Errorf("last step %+v, repeated %+v", last, got.Repeats)
	}
	if !strings.Contains(got.Kept.AtLeast, "at 4 at once") || !strings.Contains(got.Kept.AtLeast, "status 503") {
		t.Errorf("%+v", got.Kept)
	}
}

// A target that answers well at first, and later with errors or not at all, has shown no capacity: neither a lower bound nor a rate.
func TestCalibrateConcludesNothingFromATargetThatFailsLater(t *testing.T) {
	for name, tt := range map[string]struct {
		broken   func(http.ResponseWriter, *http.Request)
		from, to int // steps told
		want     string
	}{
		"a quota":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, 1, 99, "requests failed in 5 of 6 steps: status 429"},
		"a short stall": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 2, 4, "nothing was answered in 2 of 6 steps"},
	} {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n := int(told.Load()); n >= tt.from && n < tt.to {
					tt.broken(w, r)
				}
			}))
			defer s.Close()
			got, err := calibrate(t, s.URL, 1, 100*time.Millisecond, func(Step) { told.Add(1) })
			if err != nil {
				t.Fatal(err)
			}
			if got.Kept.Broken != tt.want || got.Kept.AtLeast != "" || len(got.Suggestions) > 0 {
				t.Errorf("%+v, suggested %+v", got.Kept, got.Suggestions)
			}
			if len(got.Repeats) != repeats+freshRepeats || got.Kept.Steps != repeats+1 {
				t.Errorf("%d repeats, %d counted", len(got.Repeats), got.Kept.Steps)
			}
		})
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
	k := calibrator{CalibrateConfig: CalibrateConfig{Probe: Probe{Target: timeline.Target{URL: s.URL}}, Workers: 4}, length: 100 * time.Millisecond}
	got, ok, err := k.step(t.Context(), 4, false)
	if err != nil || !ok || got.Unanswered != 2 || got.Failed != 0 || got.Requests == 0 {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
}

func TestCalibrateRefusesWhatDoesNotAnswer(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	if _, err := calibrate(t, closed.URL, 4, 100*time.Millisecond, nil); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	forbidden := httptest.NewServer(http.NotFoundHandler())
	defer forbidden.Close()
	if _, err := calibrate(t, forbidden.URL, 4, 100*time.Millisecond, nil); err == nil || !strings.Contains(err.Error(), "status 404") {
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
		CalibrateConfig: CalibrateConfig{Probe: Probe{Target: timeline.Target{URL: silent.URL}}, Workers: 4},
		patience:        300 * time.Millisecond, length: 200 * time.Millisecond,
	}
	if _, err := k.run(t.Context()); err == nil || err.Error() != "it did not answer a single request within 300ms" || asked.Load() > 1 {
		t.Errorf("%v, after %d requests", err, asked.Load())
	}
}

func TestCalibrateEndsWhenTold(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	c := CalibrateConfig{Probe: Probe{Target: timeline.Target{URL: limitedServer(t, 1, time.Millisecond)}}, Workers: 64, Duration: 17 * time.Second}
	c.Told = func(Step) { cancel(why) }
	began := time.Now()
	if _, err := Calibrate(ctx, c); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestCalibrateChecksItsBounds(t *testing.T) {
	good := CalibrateConfig{Probe: Probe{Target: timeline.Target{URL: "http://web/"}}, Workers: 8, Duration: time.Minute}
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
