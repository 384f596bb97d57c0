package series

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"lapse/correlate/model"
	"lapse/internal/guard/gate"
	"lapse/internal/history"
	"lapse/internal/run/signs"
	"lapse/timeline"
)

// A guarded is a guard of shop/web, in virtual time.
type guarded struct {
	*Guard
	*Service
	t    *testing.T
	zero time.Time // of the measurement's clock
	next time.Duration
	seen map[string]float64
}

func newGuarded(t *testing.T) *guarded {
	g := New(time.Now, "idle", "armed", "recording", "starting", "not measured")
	return &guarded{Guard: g, Service: g.Service("shop/web"), t: t, seen: map[string]float64{}}
}

// begins begins a measurement, which is idle after a second.
func (g *guarded) begins() {
	g.Stands("starting", false)
	g.zero, g.next = time.Now(), 0
	g.Fact(timeline.Meta{})
	g.Fact(timeline.Source{ID: 1})
	g.Fact(timeline.Target{ID: 1, Source: 1, Name: "web new", Kind: timeline.New, Service: "shop/web", Rate: 5, Timeout: time.Second})
	g.Fact(timeline.Target{ID: 2, Source: 1, Name: "web reused", Kind: timeline.Reused, Service: "shop/web", Rate: 5, Timeout: time.Second})
	g.passes(time.Second)
	g.Stands("idle", true)
}

// passes lets time pass, in which requests are answered.
func (g *guarded) passes(length time.Duration) {
	time.Sleep(length) // of virtual time
	now := time.Since(g.zero)
	b := timeline.Batch{}
	for ; g.next < now; g.next += 200 * ms {
		for target := range timeline.TargetID(2) {
			b.Requests = append(b.Requests, timeline.Request{Target: target + 1, Due: g.next, Sent: g.next, Done: g.next + ms})
		}
	}
	b.Watermarks = []timeline.Watermark{{Target: 1, Due: g.next}, {Target: 2, Due: g.next}}
	g.Fact(b)
	g.scrape()
}

// scrape returns the values of all series, and compares them with those before: no counter falls.
func (g *guarded) scrape() map[string]float64 {
	g.t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName() + labels(m)
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			if values[name] < g.seen[name] && f.GetType() == dto.MetricType_COUNTER {
				g.t.Errorf("%s fell from %v to %v", name, g.seen[name], values[name])
			}
		}
	}
	g.seen = values
	return values
}

func labels(m *dto.Metric) string {
	var all []string
	for _, l := range m.GetLabel() {
		if l.GetName() != "service" {
			all = append(all, l.GetValue())
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

// expects compares some series. A time may differ by half a second: the last requests are in no batch yet.
func (g *guarded) expects(want map[string]float64) {
	g.t.Helper()
	got := g.scrape()
	for name, value := range want {
		if v, ok := got[name]; !ok || v < value-0.5 || v > value+0.5 {
			g.t.Errorf("%s is %v, want %v", name, v, value)
		}
	}
}

// judged is a run of shop/web.
func judged(down model.Length, open bool, failed int, incidents ...model.Incident) *model.Timeline {
	tl := &model.Timeline{Run: model.RunInfo{ID: "r1"}, Incidents: incidents}
	tl.Targets = []model.Target{{Target: timeline.Target{ID: 1, Name: "web new", Kind: timeline.New, Service: "shop/web"}, Measured: model.Instant{Latest: time.Minute}}}
	tl.Verdict = model.Verdict{Sent: 100, Failed: failed, Coverage: 1, Downtime: model.Downtime{Total: down, Open: open}}
	return tl
}

// Counters go on from run to run and from measurement to measurement. What nobody measured is unobserved.
func TestTimesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		time.Sleep(20 * time.Second) // of virtual time: it cannot be measured yet
		g.expects(map[string]float64{"lapse_observed_seconds_total{up}": 0, "lapse_observed_seconds_total{unobserved}": 20, "lapse_gate_state{inconclusive}": 1})
		g.begins()
		g.passes(time.Hour)
		g.expects(map[string]float64{"lapse_observed_seconds_total{up}": 3601, "lapse_observed_seconds_total{unobserved}": 20, "lapse_gate_state{inconclusive}": 0, "lapse_guard_state{idle}": 1})

		g.Stands("recording", true)
		g.Begin("r1")
		g.passes(2 * time.Second)
		g.Judged(judged(model.Length{Min: time.Second, Max: 2 * time.Second}, true, 9))
		g.passes(10 * time.Second)
		g.expects(map[string]float64{"lapse_observed_seconds_total{up}": 3603, "lapse_observed_seconds_total{down}": 1, "lapse_gate_state{pending}": 1, "lapse_guard_state{recording}": 1})
		tl := judged(model.Length{Min: 4 * time.Second, Max: 6 * time.Second}, false, 12)
		g.Over(tl)
		g.End(tl, gate.Run{ID: "r1", Verdict: gate.Fail, Began: time.Now()})
		g.Stands("idle", true)
		g.passes(time.Minute)
		down := map[string]float64{
			"lapse_observed_seconds_total{up}": 3667, "lapse_observed_seconds_total{down}": 4, "lapse_observed_seconds_total{unobserved}": 20, "lapse_downtime_seconds_total{max}": 6,
			"lapse_gate_state{fail}": 1, "lapse_gate_state{pending}": 0, "lapse_disruption_failed_requests{}": 12, "lapse_disruption_downtime_seconds{min}": 4, "lapse_disruptions_total{unknown,fail}": 1,
		}
		g.expects(down)

		g.Stands("not measured", false)
		time.Sleep(30 * time.Second) // of virtual time
		g.expects(map[string]float64{"lapse_observed_seconds_total{unobserved}": 50, "lapse_gate_state{inconclusive}": 1, "lapse_gate_state{fail}": 0, "lapse_guard_state{not measured}": 1})
		g.begins()
		g.passes(time.Minute)
		down["lapse_observed_seconds_total{up}"], down["lapse_observed_seconds_total{unobserved}"] = 3728, 50
		g.expects(down)
	})
}

// A prober that hands nothing over any more does not look healthy.
func TestAProberThatIsSilentObservesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		g.begins()
		time.Sleep(5 * time.Second) // of virtual time: the requests may only be late
		g.expects(map[string]float64{"lapse_observed_seconds_total{up}": 1, "lapse_observed_seconds_total{unobserved}": 0})
		time.Sleep(5 * time.Second)
		g.expects(map[string]float64{"lapse_observed_seconds_total{up}": 1, "lapse_observed_seconds_total{unobserved}": 10})
		g.next = 10 * time.Second
		g.passes(time.Second)
		g.expects(map[string]float64{"lapse_observed_seconds_total{unobserved}": 10})
	})
}

// A node that joins and leaves takes nothing from what this process has observed. That shares its rate with probers, and
// may ask so seldom that nothing comes in for long.
func TestNodesThatComeAndGoLeaveNothingUnobserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		g.begins()
		g.passes(time.Hour)
		up := map[string]float64{"lapse_observed_seconds_total{up}": 3601, "lapse_observed_seconds_total{unobserved}": 0}
		g.Fact(timeline.Source{ID: 2, Role: timeline.Prober})
		g.Fact(timeline.Target{ID: 3, Source: 2, Name: "web new from node9", Kind: timeline.New, Service: "shop/web", Rate: 2.5, Timeout: time.Second})
		g.expects(up)
		g.Fact(timeline.Batch{Source: 2, Requests: []timeline.Request{{Target: 3, Sent: time.Second}, {Target: 3, Due: ms, Sent: 1100 * ms}}, Watermarks: []timeline.Watermark{{Target: 3, Due: time.Second}}})
		g.passes(time.Hour)
		up["lapse_observed_seconds_total{up}"] = 7201
		g.expects(up)
		for _, target := range []string{"web new", "web reused"} {
			g.Fact(timeline.Event{Kind: timeline.RateChanged, To: "0.05", Seen: time.Since(g.zero), Object: timeline.Object{Name: target}})
		}
		time.Sleep(19 * time.Second) // of virtual time: a request is due each 20 s
		g.expects(map[string]float64{"lapse_observed_seconds_total{unobserved}": 0})
	})
}

// The figure of each sign is the time from when it was first seen until an endpoint was lost.
func TestALeadIsFromTheFirstSignToTheFirstEndpointLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		g.begins()
		sign := func(at time.Duration, class signs.Class, name string) {
			g.Signed(signs.Sign{Class: class, Name: name, At: at})
		}
		sign(0, signs.Planned, "mark") // too long before
		sign(time.Hour, signs.Planned, "taint")
		sign(time.Hour+2*time.Second, signs.Soon, "cordon")
		g.Stands("armed", true)
		sign(time.Hour+3*time.Second, signs.Soon, "cordon")
		sign(time.Hour+4*time.Second, signs.Now, "endpoint")
		g.Stands("recording", true)
		sign(time.Hour+5*time.Second, signs.Now, "eviction") // too late
		sign(time.Hour+6*time.Second, signs.Now, "endpoint")
		g.Over(judged(model.Length{}, false, 0))
		g.Stands("idle", true)
		sign(2*time.Hour, signs.Now, "request")
		sign(2*time.Hour+40*time.Second, signs.Now, "endpoint")
		g.expects(map[string]float64{
			"lapse_guard_lead_seconds{taint}": 4, "lapse_guard_lead_seconds{cordon}": 2, "lapse_guard_lead_seconds{request}": 40,
			"lapse_guard_lead_seconds{mark}": 0, "lapse_guard_lead_seconds{eviction}": 0, "lapse_guard_lead_seconds{endpoint}": 0,
		})
		for name, want := range map[string]float64{"cordon": 1, "request": 1, "taint": 0, "endpoint": 1} { // the state is idle at the last ones
			if got := testutil.ToFloat64(g.armed.WithLabelValues(name)); got != want {
				t.Errorf("armed by %s: %v, want %v", name, got, want)
			}
		}
	})
}

func TestADisruptionIsCountedByWhatSetItOff(t *testing.T) {
	g := newGuarded(t)
	incident := model.Incident{Causes: []model.IncidentCause{{Cause: model.Cause{Rule: "route-outlives-pod", Confidence: model.High}}}}
	ended := func(tl *model.Timeline, uid string, by model.EndedBy, of *timeline.Object) {
		tl.Pods = append(tl.Pods, model.Pod{UID: uid, Name: uid, Ending: &model.Ending{By: by, Of: of}})
		tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.EndpointChanged, To: timeline.EndpointReady, Service: "shop/web", Object: timeline.Object{UID: uid}}})
	}
	rollout, both := judged(model.Length{}, false, 3, incident), judged(model.Length{}, false, 0)
	ended(rollout, "a", model.ByRollout, &timeline.Object{Kind: "Deployment", Name: "web"})
	ended(both, "a", model.ByRollout, &timeline.Object{Kind: "Deployment", Name: "web"})
	ended(both, "b", model.ByItself, nil)
	g.End(rollout, gate.Run{Verdict: gate.Fail})
	g.End(both, gate.Run{Verdict: gate.Pass})
	g.gap("")
	g.expects(map[string]float64{
		"lapse_disruptions_total{rollout,fail}": 1, "lapse_disruptions_total{several,pass}": 1, "lapse_disruptions_total{unknown,pass}": 0,
		"lapse_incidents_total{route-outlives-pod,high}": 1, "lapse_watch_gaps_total{all}": 1,
	})
	for _, f := range []string{"lapse_disruptions_total", "lapse_incidents_total"} {
		if !exemplified(t, g, f) {
			t.Errorf("%s names no run", f)
		}
	}
}

// exemplified reports whether a series of a family has a run as exemplar.
func exemplified(t *testing.T, g *guarded, name string) bool {
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
		return f.GetName() == name && slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool {
			return m.GetCounter().GetExemplar().GetLabel() != nil
		})
	})
}

// All series are there from the beginning, few enough to keep, and go away with their Service.
func TestAServiceHasFewSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		g.begins()
		kinds := map[string]int{} // series of a target
		all := 0                  // of the Service
		families, err := g.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				n := 1
				if h := m.GetHistogram(); h != nil {
					n = len(h.GetBucket()) + 3 // +Inf, sum and count
				}
				service, kind := "", ""
				for _, l := range m.GetLabel() {
					switch l.GetName() {
					case "service":
						service = l.GetValue()
					case "kind":
						kind = l.GetValue()
					case "pod", "node", "run":
						t.Errorf("%s has the label %s", f.GetName(), l.GetName())
					}
				}
				if kind != "" {
					kinds[kind] += n
				}
				if service != "" {
					all += n
				}
			}
		}
		if all > 120 || len(kinds) != 2 || kinds["new"] > 45 || kinds["reused"] > 45 {
			t.Errorf("%d series, of targets %v", all, kinds)
		}
		t.Logf("%d series, of targets %v", all, kinds)
		before := len(g.scrape())
		g.End(judged(model.Length{}, false, 1), gate.Run{Verdict: gate.Fail})
		if after := len(g.scrape()); after != before {
			t.Errorf("%d series before the first disruption, %d after it", before, after)
		}
		if problems, err := testutil.GatherAndLint(g.registry); len(problems) > 0 || err != nil {
			t.Errorf("%v, %v", problems, err)
		}
		g.Drop("shop/web")
		for name := range g.scrape() {
			if strings.HasPrefix(name, "lapse_requests") || strings.HasPrefix(name, "lapse_request_duration") || strings.HasPrefix(name, "lapse_errors") ||
				strings.HasPrefix(name, "lapse_disruption") || strings.HasPrefix(name, "lapse_observed") || strings.HasPrefix(name, "lapse_gate") {
				t.Errorf("%s is left", name)
			}
		}
	})
}

// The next guard knows how the last disruption went.
func TestTheLastDisruptionOutlivesTheGuard(t *testing.T) {
	g := New(time.Now, "idle")
	g.Knew(history.Line{Service: "shop/web", Failed: 7, Downtime: &model.Downtime{Total: model.Length{Min: time.Second, Max: 3 * time.Second}}}, gate.Run{Verdict: gate.Fail, Began: time.Unix(1764151200, 0)})
	next := &guarded{Guard: g, Service: g.Service("shop/web"), t: t}
	next.Fact(timeline.Meta{})
	next.expects(map[string]float64{"lapse_gate_state{fail}": 1, "lapse_disruption_failed_requests{}": 7, "lapse_disruption_last_timestamp_seconds{}": 1764151200, "lapse_disruptions_total{unknown,fail}": 0})
}

// A Service that is guarded again has no disruption until the next: its gate knows of none either.
func TestAServiceThatIsGuardedAgainBeginsAnew(t *testing.T) {
	g := New(time.Now, "idle")
	g.Knew(history.Line{Service: "shop/web", Failed: 7}, gate.Run{Verdict: gate.Fail, Began: time.Unix(1764151200, 0)})
	g.Service("shop/web")
	g.Drop("shop/web")
	next := &guarded{Guard: g, Service: g.Service("shop/web"), t: t}
	next.Fact(timeline.Meta{})
	next.expects(map[string]float64{"lapse_gate_state{fail}": 0, "lapse_disruption_failed_requests{}": 0})
}

// What alerts and the dashboard ask for is exported, with these values of its labels.
func TestAlertsAskForWhatIsExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		g.begins()
		families, err := g.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]map[string][]string{} // by metric and label
		for _, f := range families {
			of := map[string][]string{}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					of[l.GetName()] = append(of[l.GetName()], l.GetValue())
				}
			}
			values[f.GetName()] = of
		}
		files, err := filepath.Glob("../../../deploy/chart/guard/*")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, ".json") && !json.Valid(text) {
				t.Errorf("%s is no JSON", file)
			}
			asked := regexp.MustCompile(`(lapse_[a-z_]*[a-z])(?:\{([^}]*)\})?`).FindAllStringSubmatch(strings.ReplaceAll(string(text), `\"`, `"`), -1)
			if len(asked) == 0 {
				t.Errorf("%s asks for nothing", file)
			}
			for _, a := range asked {
				of, known := values[regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(a[1], "")]
				if !known {
					t.Errorf("%s asks for %s, which is not exported", file, a[1])
				}
				for _, pair := range regexp.MustCompile(`(\w+)!?=~?"([^"$]*)"`).FindAllStringSubmatch(a[2], -1) {
					for _, value := range strings.Split(pair[2], "|") {
						if !slices.Contains(of[pair[1]], value) {
							t.Errorf("%s asks for %s with %s=%q, which is not exported", file, a[1], pair[1], value)
						}
					}
				}
			}
		}
	})
}
