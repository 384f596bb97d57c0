package correlate

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/correlate/align"
	"lapse/correlate/model"
	"lapse/timeline"
)

// A skew is how a source's clock goes: the run's instant t is its t − offset(t).
type skew struct {
	offset time.Duration // at the run's zero
	drift  float64       // the run's clock is faster by so much
}

func (k skew) own(run time.Duration) time.Duration {
	return run - k.offset - time.Duration(k.drift*float64(run))
}

// threeSources is a run of three probers that measure a Service of two Pods, each by new and at the Pods' own
// addresses, and a coordinator that watches. skews say how the probers' clocks go; nil: they have the run's, and
// nobody compared them.
func threeSources(seed uint64, skews []skew) timeline.Run {
	random, exchanges := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(seed, 4))
	const (
		length   = 20 * time.Second
		interval = 10 * time.Millisecond
	)
	run := timeline.Run{
		Meta: timeline.Meta{ID: "three", T0: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
			Options: timeline.Options{Timeout: 800 * time.Millisecond}},
		Sources: []timeline.Source{{ID: 1, Name: "coordinator", Role: timeline.Coordinator}},
	}
	stop := 8*time.Second + time.Duration(random.Int64N(int64(time.Second)))
	var requests []timeline.Request
	for source := timeline.SourceID(2); source <= 4; source++ {
		own := func(at time.Duration) time.Duration { return at }
		run.Sources = append(run.Sources, timeline.Source{ID: source, Name: fmt.Sprintf("prober-%d", source),
			Role: timeline.Prober, Node: fmt.Sprintf("node%d", source)})
		if skews != nil {
			own = skews[source-2].own
			for at := time.Duration(0); at < length; at += time.Second {
				offset := at - own(at)
				run.Syncs = append(run.Syncs, timeline.Sync{
					Source: source, At: own(at), Min: offset - time.Duration(1+exchanges.IntN(2000))*time.Microsecond,
					Max: offset + time.Duration(1+exchanges.IntN(2000))*time.Microsecond,
				})
			}
		}
		// for how long the source's node goes on to route to the Pod that stopped
		lag := time.Duration(200+random.IntN(300)) * time.Millisecond
		for kind, of := range []timeline.TargetKind{timeline.New, timeline.Direct} {
			target := timeline.Target{
				ID: timeline.TargetID(10*int(source) + kind), Name: fmt.Sprintf("web %s @node%d", of, source),
				Kind: of, Service: "shop/web",
				URL: "http://10.96.0.1/", Source: source, Rate: 100, Timeout: 800 * time.Millisecond,
			}
			if of == timeline.Direct {
				target.Pod, target.PodUID, target.Name = "shop/web-1", "uid-1", "web direct web-1 @node"+
					fmt.Sprint(source)
			}
			run.Targets = append(run.Targets, target)
			run.Events = append(run.Events, timeline.Event{Source: source, Kind: timeline.TargetChanged,
				Seen: own(time.Millisecond), To: "measuring",
				Object: timeline.Object{Kind: "Target", Name: target.Name}})
			for i := range int(length / interval) {
				due := time.Duration(i)*interval + time.Duration(source)*time.Millisecond
				done := due + time.Duration(500+random.IntN(1000))*time.Microsecond
				class := timeline.OK
				switch {
				case of == timeline.Direct && due >= stop, of == timeline.New && due >= stop && due < stop+lag &&
					i%2 == 0:
					class = timeline.Refused
				case source == 3 && of == timeline.New && due > 14*time.Second && due < 15*time.Second:
					continue // it did not run
				}
				requests = append(requests, timeline.Request{
					Target: target.ID, Seq: uint64(i), Due: own(due), Sent: own(due), Done: own(done),
					Outcome: timeline.Outcome{Class: class},
				})
			}
		}
		run.Events = append(run.Events, timeline.Event{Source: source, Kind: timeline.RequestError,
			Seen: own(stop + time.Second), Since: own(stop), To: "refused",
			Object: timeline.Object{Kind: "Target", Name: run.Targets[len(run.Targets)-2].Name},
			Detail: "connection refused"})
	}
	pod := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "uid-1", Node: "node2"}
	run.Events = append(run.Events,
		timeline.Event{Source: 1, Kind: timeline.PodSeen, Seen: time.Millisecond, To: "Running", Detail: "listed",
			Object: pod},
		timeline.Event{Source: 1, Kind: timeline.PodDeleted, Seen: stop - 100*time.Millisecond,
			Since: stop - 150*time.Millisecond, Object: pod},
		timeline.Event{Source: 1, Kind: timeline.RunPhase, From: "measuring", To: "ended", Seen: length},
	)
	for i := range run.Events {
		run.Events[i].ID = uint32(i + 1)
	}
	run.Batches = func(yield func(timeline.Batch, error) bool) { yield(timeline.Batch{Requests: requests}, nil) }
	return run
}

// within reports whether a bracket lies in another, and is no more than so much wider at either side.
func within(inner, outer model.Instant, wider time.Duration) bool {
	return outer.Earliest <= inner.Earliest && inner.Latest <= outer.Latest &&
		inner.Earliest-outer.Earliest <= wider && outer.Latest-inner.Latest <= wider
}

// followed is the run as a Tracker judges it that learns of each source's clock while the run goes on, and is asked
// meanwhile.
func followed(run timeline.Run) *model.Timeline {
	t := NewTracker(Options{})
	t.Add(run.Meta)
	for _, s := range run.Sources {
		t.Add(s)
	}
	for _, target := range run.Targets {
		t.Add(target)
	}
	for _, e := range run.Events[:len(run.Events)-1] {
		t.Add(e)
	}
	for b := range run.Batches {
		for half := range slices.Chunk(b.Requests, len(b.Requests)/2+1) {
			t.Add(timeline.Batch{Requests: half})
			t.Timeline()
			for _, s := range run.Syncs {
				t.Add(s)
			}
			run.Syncs = nil
		}
	}
	t.Add(run.Events[len(run.Events)-1])
	t.closed = true
	return t.Timeline()
}

// checkSkewed holds a run of skewed sources against the same run whose sources have the run's clock: the same
// windows, stops, events and unobserved time, in brackets that hold the others and are little wider.
func checkSkewed(t *testing.T, seed uint64, skews []skew) {
	t.Helper()
	const wider = 10 * time.Millisecond // 2 ms of an exchange, and 1 ms/s to the nearest, at both ends
	straight := analyzed(t, threeSources(seed, nil))
	skewed := analyzed(t, threeSources(seed, skews))
	if live := followed(threeSources(seed, skews)); !reflect.DeepEqual(live, skewed) {
		t.Errorf("a Tracker that gets the clock exchanges as the run goes on differs: %s", gocmp.Diff(skewed, live, addresses))
	}
	ofTarget := func(tl *model.Timeline, target string) (list []model.Window) {
		for _, w := range tl.Windows {
			if w.Target == target {
				list = append(list, w)
			}
		}
		return list
	}
	if len(straight.Windows) < 3 {
		t.Fatalf("%d windows, want one of each prober", len(straight.Windows))
	}
	for i, target := range straight.Targets {
		want, got := ofTarget(straight, target.Name), ofTarget(skewed, target.Name)
		if len(want) != len(got) {
			t.Fatalf("%s: %d windows, unskewed %d", target.Name, len(got), len(want))
		}
		for j := range want {
			w, g := want[j], got[j]
			if !within(w.Start, g.Start, wider) || !within(w.End, g.End, wider) || g.Length.Min > w.Length.Min ||
				g.Length.Max < w.Length.Max ||
				g.Length.Max-w.Length.Max > wider || w.Failed != g.Failed || w.Kind != g.Kind || w.Sent != g.Sent {
				t.Errorf("%s: window\n%+v\nunskewed\n%+v", target.Name, g, w)
			}
			if w.Causes[0].Rule != g.Causes[0].Rule {
				t.Errorf("%s: cause %s, unskewed %s", target.Name, g.Causes[0].Rule, w.Causes[0].Rule)
			}
		}
		if other := skewed.Targets[i]; !within(target.Measured, other.Measured, wider) ||
			other.Coverage > target.Coverage || other.Coverage < target.Coverage-0.002 {
			t.Errorf("%s: %+v coverage %v, unskewed %+v %v", target.Name, other.Measured, other.Coverage,
				target.Measured, target.Coverage)
		}
		sum := func(tl *model.Timeline) (sent, failed int) {
			for i, n := range tl.Buckets.Targets[target.Name].Sent {
				sent, failed = sent+n, failed+tl.Buckets.Targets[target.Name].Failed[i]
			}
			return sent, failed
		}
		sent, failed := sum(straight)
		if s, f := sum(skewed); s != sent || f != failed {
			t.Errorf("%s: the slots count %d sent, %d failed, unskewed %d and %d", target.Name, s, f, sent, failed)
		}
		if holes := slices.Index(skewed.Buckets.Targets[target.Name].Sent[10:130], 0); holes >= 0 {
			t.Errorf("%s: slot %d counts nothing", target.Name, 10+holes)
		}
	}
	if want, got := straight.Pods[0].Stopped, skewed.Pods[0].Stopped; want == nil || got == nil ||
		!within(*want, *got, wider) {
		t.Errorf("the Pod stopped %v, unskewed %v", got, want)
	}
	for i, e := range straight.Events {
		if !within(e.At, skewed.Events[i].At, wider) {
			t.Errorf("%s at %v, unskewed %v", e.Kind, skewed.Events[i].At, e.At)
		}
	}
	for i, f := range straight.Failures {
		g := skewed.Failures[slices.IndexFunc(skewed.Failures, func(o model.Failure) bool {
			return o.Target == f.Target && o.Seq == f.Seq
		})]
		if g.Earliest() > f.Sent || g.Latest() < f.Done || g.Error > wider {
			t.Errorf("failure %d at %v ±%v, unskewed at %v", i, g.Sent, g.Error, f.Sent)
		}
	}
	if len(straight.Unobserved) != 1 || len(skewed.Unobserved) != 1 {
		t.Fatalf("unobserved %+v, unskewed %+v", skewed.Unobserved, straight.Unobserved)
	}
	u, o := straight.Unobserved[0], skewed.Unobserved[0]
	if !within(model.Instant{Earliest: u.Start, Latest: u.End}, model.Instant{Earliest: o.Start, Latest: o.End},
		wider) {
		t.Errorf("unobserved %+v, unskewed %+v", o, u)
	}
	for _, tl := range []*model.Timeline{straight, skewed} {
		if shared := tl.Targets[2].SharedCoverage; shared == nil || *shared < 0.9995 || tl.Targets[2].Coverage > 0.96 {
			t.Errorf("the Service was observed %v by the three, %v by the one that did not run", shared,
				tl.Targets[2].Coverage)
		}
	}
	if len(skewed.Sources) != 4 || skewed.Sources[0].Clock != nil || skewed.Sources[1].Clock.Exchanges != 20 ||
		skewed.Sources[2].Node != "node3" {
		t.Errorf("sources: %+v", skewed.Sources)
	}
}

// Three probers whose clocks are up to 5 s apart and drift give the windows that they give on one clock, in brackets
// that are true.
func FuzzSkewedSourcesGiveTheSameWindows(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(seed, int16(5000-600*int(seed)), int16(600*int(seed)-5000), int16(seed*97), int16(900-int(seed)*120),
			int16(-900), int16(450))
	}
	f.Fuzz(func(t *testing.T, seed uint64, a, b, c, driftA, driftB, driftC int16) {
		of := func(offset, drift int16) skew { // the prober began 5 to 15 s before the run; up to 1 ms/s
			return skew{time.Duration(offset%5001)*time.Millisecond - 10*time.Second,
				float64(drift%1000) / 1000 * align.Drift * 0.99}
		}
		checkSkewed(t, seed, []skew{of(a, driftA), of(b, driftB), of(c, driftC)})
	})
}

// A prober whose machine is suspended for a minute between two exchanges: what it measured about then may have been
// before or after.
func TestJumpOfAClockWidensWhatLiesAboutIt(t *testing.T) {
	const interval = 10 * time.Millisecond
	run := timeline.Run{
		Meta:    timeline.Meta{ID: "jump"},
		Sources: []timeline.Source{{ID: 1, Name: "east"}},
		Targets: []timeline.Target{{ID: 1, Name: "new", Kind: timeline.New, Source: 1, Rate: 100,
			Timeout: time.Second}},
		Syncs: []timeline.Sync{
			{Source: 1, Max: time.Millisecond}, {Source: 1, At: 5 * time.Second, Max: time.Millisecond},
			{Source: 1, At: 10 * time.Second, Min: time.Minute, Max: time.Minute + time.Millisecond},
			{Source: 1, At: 15 * time.Second, Min: time.Minute, Max: time.Minute + time.Millisecond},
		},
		Events: []timeline.Event{{ID: 1, Kind: timeline.RunPhase, To: "ended", Seen: 75 * time.Second}},
	}
	var requests []timeline.Request
	for i := range 1500 {
		due := time.Duration(i) * interval
		class := timeline.OK
		if at := due % (5 * time.Second); at >= 2*time.Second && at < 2200*time.Millisecond {
			class = timeline.Refused
		}
		requests = append(requests, timeline.Request{Target: 1, Seq: uint64(i), Due: due, Sent: due,
			Done: due + time.Millisecond, Outcome: timeline.Outcome{Class: class}})
	}
	run.Batches = func(yield func(timeline.Batch, error) bool) {
		yield(timeline.Batch{Source: 1, Requests: requests}, nil)
	}
	tl := analyzed(t, run)
	if len(tl.Windows) != 3 {
		t.Fatalf("%d windows, want three", len(tl.Windows))
	}
	for i, want := range []struct{ earliest, latest, mostLong time.Duration }{
		{1980 * time.Millisecond, 2010 * time.Millisecond, 300 * time.Millisecond},
		{6980 * time.Millisecond, 67100 * time.Millisecond, 61 * time.Second}, // before the jump, or after it
		{71980 * time.Millisecond, 72010 * time.Millisecond, 300 * time.Millisecond},
	} {
		w := slices.SortedFunc(slices.Values(tl.Windows), func(a, b model.Window) int {
			return int(a.Start.Latest - b.Start.Latest)
		})[i]
		if w.Start.Earliest < want.earliest || w.Start.Latest > want.latest || w.Length.Max > want.mostLong {
			t.Errorf("window %d: %+v, want it to begin from %v to %v", i, w, want.earliest, want.latest)
		}
		if i == 1 && (w.Start.Earliest > 7*time.Second || w.Start.Latest < 67*time.Second ||
			w.Length.Max < time.Minute) {
			t.Errorf("window %d: %+v: it may have begun before the jump or after it, and last through it", i, w)
		}
	}
	if len(tl.Unobserved) != 1 || tl.Unobserved[0].Reason != model.ReasonJumped ||
		tl.Unobserved[0].Start > 5*time.Second || tl.Unobserved[0].End < 70*time.Second {
		t.Errorf("unobserved: %+v, want the time in which the clock jumped", tl.Unobserved)
	}
	if tl.Sources[0].Clock.Jumps != 1 || tl.Targets[0].Coverage > 0.2 {
		t.Errorf("%+v, coverage %v", tl.Sources[0].Clock, tl.Targets[0].Coverage)
	}
}
