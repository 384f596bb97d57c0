package guard

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lapse/correlate/model"
	"lapse/internal/guard/gate"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/spec"
	"lapse/timeline"
	"lapse/watcher"
)

// atMost returns settings with a budget and the default rates: 15/s to each Service that waits.
func atMost(most float64) *Settings {
	return &Settings{MaxRate: most, Options: func(m watcher.Marked) (*spec.Options, error) {
		return &spec.Options{Spec: spec.Spec{
			Targets: []string{m.Key()}, Kinds: []string{"new", "reused"}, Rate: 100, IdleRate: 5, DirectRate: 100, Baseline: time.Second,
		}}, nil
	}}
}

func newFakeAtMost(t *testing.T, most float64) *fake {
	f := newFakeOf(t, filepath.Join(t.TempDir(), "runs"), nil)
	f.rereads(atMost(most), nil)
	return f
}

// named returns the names of n Services.
func named(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("shop/s%03d", i))
	}
	return all
}

// says reports whether the status has a line.
func (f *fake) says(line string) bool {
	f.t.Helper()
	var text strings.Builder
	if err := Print(&text, f.report()); err != nil {
		f.t.Fatal(err)
	}
	return strings.Contains("\n"+text.String(), "\n"+line)
}

// A node that is drained disrupts many Services. They share the budget, and the status, the log, a metric and a verdict
// that passes say so. When it is over, the rate is the one that was asked for.
func TestServicesUnderDisruptionShareTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAtMost(t, 2000)
		all := named(40)
		f.guards(all...)
		if r := f.report().Rates; r.Lowered > 0 || f.says("--max-rate") || strings.Contains(f.log.String(), "lowered") {
			t.Errorf("%+v\n%s", r, f.log)
		}
		var ends []func()
		for _, name := range all[:20] {
			ends = append(ends, f.disrupt(name, 0))
		}
		const line = "--max-rate 2000: Services under disruption get 6.2/s instead of 100/s to each target"
		if s := f.status(all[0]); s.State != coordinator.Recording || s.Rate != 6.25 || f.status(all[30]).Rate != 0 {
			t.Errorf("%+v", s)
		}
		if !f.says(line+"\n") || !f.says(all[0]+"  recording, 6.2/s  ") || !strings.Contains(f.log.String(), line) || !f.exports("lapse_guard_lowered_services 20") || !f.exports("lapse_guard_max_rate 2000") {
			t.Errorf("it does not say that the rates are lowered\n%s", f.log)
		}
		for _, end := range ends {
			end()
		}
		if a := f.asked("service="+all[0]+"&node=node1", 200, gate.Pass); a.Reason != "0 of 900 failed; at 10/s instead of 100/s: an outage shorter than 100 ms may be missed" {
			t.Errorf("%+v", a)
		}
		if r := f.report().Rates; r.Lowered > 0 || f.says("--max-rate") || !strings.Contains(f.log.String(), "no longer lowered") || !f.exports("lapse_guard_lowered_services 0") {
			t.Errorf("%+v\n%s", r, f.log)
		}
	})
}

// Many Services on a budget for few wait with fewer requests each, and a baseline that is long enough for two. That
// nothing was seen of one is known less well then.
func TestManyServicesWaitWithFewerRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAtMost(t, 700)
		all := named(200)
		f.guards(all...)
		since := time.Now().UTC().Format(time.RFC3339)
		for _, name := range all {
			if s := f.status(name); s.State != coordinator.Idle || s.Rate != 0.3125 || f.baseline[name] != 6400*time.Millisecond {
				t.Fatalf("%+v, a baseline of %v", s, f.baseline[name])
			}
		}
		const line = "--max-rate 700: those that wait get 0.31/s instead of 5/s to each target"
		if !f.says(line+"\n") || !strings.Contains(f.log.String(), line) || !f.exports("lapse_guard_lowered_services 200") {
			t.Errorf("it does not say that the rates are lowered\n%s", f.log)
		}
		time.Sleep(time.Minute) // of virtual time
		asks := "none=pass&service=" + all[0] + "&since=" + since
		if a := f.asked(asks, 200, gate.Pass); !strings.HasSuffix(a.Reason, "; at 0.31/s instead of 5/s: an outage shorter than 3.2 s may be missed") {
			t.Errorf("%+v", a)
		}
		f.guards(all[:10]...)
		time.Sleep(lingers) // of virtual time
		synctest.Wait()
		if a := f.asked(asks, 200, gate.Pass); strings.Contains(a.Reason, "missed") || f.status(all[0]).Rate != 0 || f.report().Rates.Lowered != 0 {
			t.Errorf("%+v, %+v", a, f.status(all[0]))
		}
	})
}

// What does not even fit at the lowest rate is not measured: each says so, until there is room. What is measured stays.
func TestServicesThatDoNotFitAreNotMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAtMost(t, 7)
		all := named(12)
		f.guards(all...)
		time.Sleep(time.Minute) // of virtual time
		f.guards(append([]string{"shop/another"}, all...)...)
		why := "--max-rate 7 is not enough: it takes 7.7 with the 10 Services before it, at 0.1/s to each target"
		for i, name := range append(all, "shop/another") {
			s := f.status(name)
			if fits := i < 10; fits != (s.State == coordinator.Idle) || !fits && s.Problem != why {
				t.Errorf("%+v", s)
			}
		}
		if a := f.asked("service=shop/another&node=node1", 200, gate.Inconclusive); a.Reason != "shop/another is not measured: "+why {
			t.Errorf("%+v", a)
		}
		f.rereads(atMost(9), nil)
		time.Sleep(retryAfter) // of virtual time
		synctest.Wait()
		measured := func() (n int) {
			for _, s := range f.report().Services {
				if s.State == coordinator.Idle && s.Problem == "" {
					n++
				}
			}
			return n
		}
		if n := measured(); n != 12 || f.status(all[0]).State != coordinator.Idle {
			t.Errorf("with more, %d are measured", n)
		}
		f.guards(append([]string{"shop/another"}, all[1:]...)...)
		time.Sleep(retryAfter + 2*time.Second) // of virtual time
		synctest.Wait()
		if n := measured(); n != 12 || len(f.report().Services) != 12 {
			t.Errorf("there is room, but %d are measured", n)
		}
	})
}

// A run that is broken off gives its share back.
func TestABrokenMeasurementGivesItsShareBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAtMost(t, 2000)
		f.guards(named(1)...)
		f.on["shop/s000"].Most(30, true)
		if r := f.report().Rates; r.Lowered != 1 {
			t.Errorf("%+v", r)
		}
		f.breaks <- nil
		f.settles()
		if r := f.report().Rates; r.Lowered != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// The lowest rate since the first sign counts, of those whose failures do.
func TestTheLowestRateOfARunCounts(t *testing.T) {
	rate := func(target, from, to string) timeline.Event {
		return timeline.Event{Kind: timeline.RateChanged, From: from, To: to, Object: timeline.Object{Kind: "Target", Name: target}}
	}
	sign := timeline.PhaseChange(0, timeline.PhaseBaseline, timeline.PhaseMeasuring, "")
	for name, test := range map[string]struct {
		events []timeline.Event
		now    float64
		want   string
	}{
		"as asked":        {[]timeline.Event{rate("web", "5", "100"), sign}, 100, ""},
		"from the sign":   {[]timeline.Event{rate("web", "5", "25"), sign}, 25, "at 25/s instead of 100/s: an outage shorter than 40 ms may be missed"},
		"later":           {[]timeline.Event{rate("web", "5", "100"), sign, rate("web", "100", "50"), rate("web", "50", "100")}, 100, "at 50/s instead of 100/s: an outage shorter than 20 ms may be missed"},
		"until later":     {[]timeline.Event{rate("web", "5", "50"), sign, rate("web", "50", "100")}, 100, "at 50/s instead of 100/s: an outage shorter than 20 ms may be missed"},
		"of this process": {[]timeline.Event{rate("web", "5", "100"), sign, rate("control", "100", "50")}, 100, ""},
	} {
		tl := &model.Timeline{Run: model.RunInfo{Spec: []byte(`{"rate":100}`)}, Targets: []model.Target{
			{Target: timeline.Target{Name: "web", Kind: timeline.New, Rate: test.now}}, {Target: timeline.Target{Name: "control", Kind: timeline.Control, Rate: 10}},
		}}
		for _, e := range test.events {
			tl.Events = append(tl.Events, model.Event{Event: e})
		}
		if got := rateOf(tl); got != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	prober := func(to, node string) timeline.Event {
		return timeline.Event{Kind: timeline.ProberChanged, To: to, Object: timeline.Object{Kind: "Node", Name: node}}
	}
	for name, test := range map[string]struct {
		events []timeline.Event
		now    float64
		want   string
	}{
		"shared by three places":            {[]timeline.Event{prober("measuring", "node1"), prober("measuring", "node2"), rate("web", "1", "25"), sign}, 25, "at 75/s"},
		"by four":                           {[]timeline.Event{prober("measuring", "node1"), prober("measuring", "node2"), prober("measuring", "node3"), rate("web", "1", "25"), sign}, 25, ""},
		"a node instead of another":         {[]timeline.Event{prober("measuring", "node1"), sign, prober("lost", "node1"), prober("measuring", "node2")}, 25, "at 50/s"},
		"one more":                          {[]timeline.Event{prober("measuring", "node1"), sign, prober("measuring", "node2"), rate("web", "50", "33.4")}, 33.4, ""},
		"a prober that was restarted":       {[]timeline.Event{prober("measuring", "node1"), prober("lost", "node1"), prober("measuring", "node1"), sign}, 25, "at 50/s"},
		"one less, and its share is theirs": {[]timeline.Event{prober("measuring", "node1"), sign, prober("lost", "node1"), rate("web", "50", "100")}, 100, ""},
	} {
		tl := &model.Timeline{Run: model.RunInfo{Spec: []byte(`{"rate":100}`)}, Sources: []model.Source{{Name: "guard", Role: timeline.Workstation}, {Name: "prober", Role: timeline.Prober}}, Targets: []model.Target{
			{Target: timeline.Target{Name: "web", Kind: timeline.New, Rate: test.now}, Source: "guard"}, {Target: timeline.Target{Name: "web from node1", Kind: timeline.New, Rate: 1}, Source: "prober"},
		}}
		for _, e := range test.events {
			tl.Events = append(tl.Events, model.Event{Event: e})
		}
		if got := rateOf(tl); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if rateOf(&model.Timeline{}) != "" {
		t.Error("a run without a description has a lowered rate")
	}
}
