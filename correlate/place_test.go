package correlate

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

func TestEventHappenedNoLaterThanSeenAndNoEarlierThanItsLagAllows(t *testing.T) {
	pod := timeline.Object{Kind: "Pod", UID: "u1"}
	for _, tt := range []struct {
		name  string
		event timeline.Event
		want  model.Instant
	}{
		{"written by the API server", timeline.Event{Kind: timeline.PodDeleted, Object: pod, Seen: 10 * time.Second},
			model.Instant{Earliest: 9 * time.Second, Latest: 10 * time.Second}},
		{"noticed by a kubelet", timeline.Event{Kind: timeline.PodContainer, Object: pod, Seen: 10 * time.Second},
			model.Instant{Earliest: 7 * time.Second, Latest: 10 * time.Second}},
		{"proved by Since", timeline.Event{Kind: timeline.PodGone, Object: pod, Since: 2 * time.Second,
			Seen: 10 * time.Second}, model.Instant{Earliest: 2 * time.Second, Latest: 10 * time.Second}},
		{"proved by a Since before the run's zero", timeline.Event{Kind: timeline.EndpointChanged, From: "ready", Object: pod,
			Since: -2 * time.Second, Seen: 10 * time.Second}, model.Instant{Earliest: -2 * time.Second, Latest: 10 * time.Second}},
		{"a stall", timeline.Event{Kind: timeline.ProberStall, Since: 9 * time.Second, Seen: 10 * time.Second},
			model.Instant{Earliest: 9 * time.Second, Latest: 10 * time.Second}},
		{"our own doing", timeline.Event{Kind: timeline.RunPhase, Seen: 10 * time.Second},
			model.Instant{Earliest: 10 * time.Second, Latest: 10 * time.Second}},
		{"a stamp narrows nothing", timeline.Event{Kind: timeline.KubeEvent, Object: pod, Seen: 10 * time.Second,
			Stamp: time.Unix(9, 999)}, model.Instant{Earliest: 7 * time.Second, Latest: 10 * time.Second}},
		{"just after the start", timeline.Event{Kind: timeline.PodDeleted, Object: pod, Seen: 100 * ms},
			model.Instant{Earliest: -900 * ms, Latest: 100 * ms}},
		{"an endpoint as first listed", timeline.Event{Kind: timeline.EndpointChanged, To: "ready", Object: pod,
			Seen: 10 * time.Second}, model.Instant{Earliest: model.Unbounded, Latest: 10 * time.Second}},
		{"an EvictionRequest as first listed", timeline.Event{Kind: timeline.EvictionRequested, To: "Eviction", Object: pod,
			Seen: 10 * time.Second}, model.Instant{Earliest: model.Unbounded, Latest: 10 * time.Second}},
		{"an EvictionRequest that came", timeline.Event{Kind: timeline.EvictionRequested, From: "absent", To: "Eviction",
			Object: pod, Seen: 10 * time.Second}, model.Instant{Earliest: 9 * time.Second, Latest: 10 * time.Second}},
		{"an endpoint that came", timeline.Event{Kind: timeline.EndpointChanged, From: "absent", To: "ready",
			Object: pod, Seen: 10 * time.Second}, model.Instant{Earliest: 9 * time.Second, Latest: 10 * time.Second}},
	} {
		if got := cluster.Place(time.Time{}, []timeline.Event{tt.event})[0].At; got != tt.want {
			t.Errorf("%s: at %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestStateOfAListedPodMayBeOlderThanTheRun(t *testing.T) {
	pod := timeline.Object{Kind: "Pod", UID: "u1"}
	placed := cluster.Place(time.Time{}, []timeline.Event{
		{Kind: timeline.PodSeen, Object: pod, Seen: ms, Detail: "listed"},
		{Kind: timeline.PodReady, To: "true", Object: pod, Seen: ms},
		{Kind: timeline.PodReady, From: "true", To: "false", Object: pod, Seen: 10 * time.Second},
		{Kind: timeline.PodSeen, Object: timeline.Object{Kind: "Pod", UID: "u2"}, Seen: ms, Detail: "watched"},
		{Kind: timeline.EndpointChanged, From: "absent", To: "ready", Object: pod, Seen: 30 * ms},
		{Kind: timeline.EndpointChanged, From: "absent", To: "ready", Object: pod, Seen: 5 * time.Second},
	})
	for i, want := range []time.Duration{model.Unbounded, model.Unbounded, 7 * time.Second, ms - cluster.WatchLag,
		model.Unbounded, 4 * time.Second} {
		if placed[i].At.Earliest != want {
			t.Errorf("event %d: no earlier than %v, want %v", i, placed[i].At.Earliest, want)
		}
	}
}

// A Service's selector is changed and restored: what is reported of the Pod again is no change, that its endpoint
// came back is one, and what the first list told stays as old as it was.
func TestPodThatComesBackIsToldAnewAndHasNotChanged(t *testing.T) {
	pod := timeline.Object{Kind: "Pod", UID: "u1"}
	for _, detail := range []string{"listed", "watched"} {
		placed := cluster.Place(time.Time{}, []timeline.Event{
			{Kind: timeline.PodSeen, Object: pod, Seen: ms, Detail: "listed"},
			{Kind: timeline.PodReady, To: "true", Object: pod, Seen: ms},
			{Kind: timeline.PodGone, Object: pod, Seen: 5 * time.Second, Detail: timeline.NoLongerSelected},
			{Kind: timeline.PodSeen, Object: pod, Seen: 9 * time.Second, Detail: detail},
			{Kind: timeline.PodReady, To: "true", Object: pod, Seen: 9 * time.Second},
			{Kind: timeline.EndpointChanged, From: "absent", To: "ready", Object: pod, Seen: 9 * time.Second},
		})
		for i, want := range []time.Duration{model.Unbounded, model.Unbounded, 4 * time.Second, model.Unbounded,
			model.Unbounded, 8 * time.Second} {
			if placed[i].At.Earliest != want {
				t.Errorf("%s, event %d: no earlier than %v, want %v", detail, i, placed[i].At.Earliest, want)
			}
		}
	}
}

// The watch that stood still had no gap of its own, but the whole API server did.
func TestGapOfEverythingStretchesEveryWatch(t *testing.T) {
	gap := timeline.Event{Kind: timeline.WatchGap, Since: 5 * time.Second, Seen: 20 * time.Second}
	crash := timeline.Event{Kind: timeline.PodContainer, From: "running", To: "terminated",
		Object: timeline.Object{Kind: "Pod", UID: "u1"}, Seen: 20750 * ms}
	if got := cluster.Place(time.Time{},
		[]timeline.Event{gap, crash})[1].At; got != (model.Instant{Earliest: 2 * time.Second, Latest: 20750 * ms}) {
		t.Errorf("a crash seen after it happened in %v, want 2 s to 20.75 s", got)
	}
}

func TestWatchGapStretchesWhatComesInItsWake(t *testing.T) {
	gap := timeline.Event{Kind: timeline.WatchGap, Since: 2 * time.Second, Seen: 8 * time.Second,
		Object: timeline.Object{Kind: "Pod"}}
	pod := timeline.Object{Kind: "Pod", UID: "u1"}
	for _, tt := range []struct {
		name  string
		event timeline.Event
		want  time.Duration
	}{
		{"in its wake, or on its way when the gap began", timeline.Event{Kind: timeline.PodDeleted, Object: pod,
			Seen: 8500 * ms}, time.Second},
		{"in its wake, noticed by a kubelet", timeline.Event{Kind: timeline.PodContainer, Object: pod,
			Seen: 8500 * ms}, -time.Second},
		{"long after", timeline.Event{Kind: timeline.PodDeleted, Object: pod, Seen: 20 * time.Second},
			19 * time.Second},
		{"another watch, about the Pod", timeline.Event{Kind: timeline.EvictionRequested, From: "absent", Object: pod,
			Seen: 8500 * ms}, 7500 * ms},
		{"another watch", timeline.Event{Kind: timeline.EndpointChanged, From: "ready", Object: pod, Seen: 8500 * ms},
			7500 * ms},
	} {
		if got := cluster.Place(time.Time{}, []timeline.Event{gap, tt.event})[1].At.Earliest; got != tt.want {
			t.Errorf("%s: no earlier than %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPlacingKeepsWhatTheFactSays(t *testing.T) {
	stamp := time.Unix(1700000000, 5)
	e := timeline.Event{ID: 7, Seen: time.Second, Stamp: stamp, Writer: "kubelet/node1", Kind: timeline.KubeEvent,
		From: "a", To: "Killing", Object: timeline.Object{Kind: "Pod", UID: "u1"}, ExitCode: new(3), Detail: "why"}
	bare := cluster.Place(time.Time{}, []timeline.Event{{ID: 8, Kind: timeline.RunPhase}})[0]
	p := cluster.Place(time.Time{}, []timeline.Event{e})[0]
	if p.ID != 7 || p.Seen != e.Seen || !p.Stamp.Equal(stamp) || p.Writer != e.Writer || p.Kind != e.Kind ||
		p.From != "a" || p.To != "Killing" || p.Object != e.Object || *p.ExitCode != 3 || p.Detail != "why" {
		t.Errorf("%+v became %+v", e, p)
	}
	if !bare.Object.IsZero() || !bare.Stamp.IsZero() || bare.Addr.IsValid() {
		t.Errorf("what was not seen is not absent: %+v", bare)
	}
}

// A crash at 7.3 s was seen at 20.75 s, for the API server had stood still, and nobody knew of a gap.
func TestStampFarBeforeTheBracketWidensIt(t *testing.T) {
	t0 := time.Unix(1_700_000_000, 300_000_000)
	for _, tt := range []struct {
		name  string
		stamp time.Duration // on the run's clock
		seen  time.Duration
		since time.Duration
		want  time.Duration
	}{
		{"far before", 6700 * ms, 20750 * ms, 0, 5700 * ms},
		{"far before what a relist proves of the API's objects", 6700 * ms, 20750 * ms, 15 * time.Second, 5700 * ms},
		{"within", 19700 * ms, 20750 * ms, 0, 17750 * ms},
		{"as far before as two clocks may be apart", 18500 * ms, 20750 * ms, 0, 17500 * ms},
		{"after", 30 * time.Second, 20750 * ms, 0, 17750 * ms},
	} {
		e := timeline.Event{Kind: timeline.PodContainer, To: "terminated",
			Object: timeline.Object{Kind: "Pod", UID: "u1"}, Seen: tt.seen, Since: tt.since, Stamp: t0.Add(tt.stamp)}
		if got := cluster.Place(t0, []timeline.Event{e})[0].At; got != (model.Instant{Earliest: tt.want,
			Latest: tt.seen}) {
			t.Errorf("%s: at %v, want [%v %v]", tt.name, got, tt.want, tt.seen)
		}
	}
}

// The API server stands still now and then. What a kubelet could not write it writes when it tries again, up to 10 s
// after. Its clock is another one than ours. Silences of over a second are on record, as the watcher tells them.
func TestPlaceHoldsTheTruthWheneverTheAPIServerStoodStill(t *testing.T) {
	t0 := time.Unix(1_700_000_000, 654_321_000)
	late := 0
	for seed := range uint64(2000) {
		d := draw{rand.New(rand.NewPCG(seed, 11))}
		var freezes []windows.Period
		for at := d.between(0, 20*time.Second); at < 60*time.Second; at += d.between(5*time.Second, 30*time.Second) {
			f := windows.Period{From: at, To: at + d.between(100*ms, 25*time.Second)}
			freezes, at = append(freezes, f), f.To
		}
		thaws := func(at time.Duration) time.Duration { // when the API server goes on
			for _, f := range freezes {
				if f.From <= at && at < f.To {
					return f.To
				}
			}
			return at
		}
		skew := d.between(-900*ms, 900*ms)
		var events []timeline.Event
		truths := map[uint32]time.Duration{}
		add := func(e timeline.Event, happened, written time.Duration) {
			written = thaws(written)
			seen := thaws(written + d.between(ms, 100*ms))
			e.ID, e.Seen, e.Object = uint32(len(truths)+1), seen, timeline.Object{Kind: "Pod", UID: "u1"}
			truths[e.ID] = happened
			events = append(events, e)
		}
		for range 20 {
			at := d.between(time.Second, 70*time.Second)
			if d.IntN(2) == 0 {
				add(timeline.Event{Kind: timeline.EndpointChanged, From: "ready", To: "absent"}, thaws(at), at)
				continue
			}
			written := at + d.between(0, 1500*ms) // its relist, and the update
			if thaws(written) > written {
				written = thaws(written) + d.between(0, 10*time.Second)
			}
			add(timeline.Event{Kind: timeline.PodContainer, To: "terminated",
				Stamp: t0.Add(at + skew).Truncate(time.Second)}, at, written)
		}
		for _, f := range freezes {
			if f.To-f.From > time.Second {
				events = append(events, timeline.Event{Kind: timeline.WatchGap, Since: f.From - d.between(0, 500*ms),
					Seen: f.To})
			}
		}
		slices.SortStableFunc(events, func(a, b timeline.Event) int {
			if a.Seen != b.Seen {
				return int(a.Seen - b.Seen)
			}
			return int(a.ID) - int(b.ID) // gaps first
		})
		for _, e := range cluster.Place(t0, events) {
			truth, known := truths[e.ID]
			if known && (e.At.Earliest > truth || truth > e.At.Latest) {
				t.Errorf("seed %d: %s happened at %v, seen at %v, which is placed at %v; freezes %v", seed, e.Kind,
					truth, e.Seen, e.At, freezes)
			}
			if known && e.Seen-truth > cluster.KubeletLag {
				late++
			}
		}
	}
	if late < 1000 {
		t.Errorf("%d events were late", late)
	}
}

// A run is judged while it goes on: what is learned later of an event that was placed before changes its place, but
// in no timeline that was handed out.
func TestEventsThatArePlacedAsTheyComeAreWhereTheyAreAtTheEnd(t *testing.T) {
	moved := 0
	for seed := range uint64(300) {
		d := draw{rand.New(rand.NewPCG(seed, 12))}
		tracker, whole := NewTracker(Options{}), NewTracker(Options{})
		var shown, copies [][]model.Event
		for i := range 40 {
			e := timeline.Event{ID: uint32(i + 1), Seen: time.Duration(i) * 300 * ms,
				Object: timeline.Object{Kind: "Pod", UID: []string{"u1", "u2", "u3"}[d.IntN(3)]}}
			switch d.IntN(5) {
			case 0:
				e.Kind, e.Detail = timeline.PodSeen, []string{"listed", "watched"}[d.IntN(2)]
				e.Seen -= time.Duration(d.IntN(2)) * 300 * ms
			case 1:
				e.Kind, e.Since, e.Object = timeline.WatchGap, e.Seen-d.between(0, 3*time.Second), timeline.Object{}
			case 2:
				e.Kind, e.From, e.To = timeline.EndpointChanged, timeline.EndpointAbsent, timeline.EndpointReady
			case 3:
				e.Kind, e.To = timeline.PodReady, "true"
			case 4:
				e.Kind, e.Source = timeline.ProberStall, 2
				e.Since = max(0, e.Seen-100*ms)
			}
			facts := []timeline.Fact{e}
			if i == 20 && seed%3 == 0 {
				facts = append(facts, timeline.Source{ID: 1, Name: "here"}, timeline.Source{ID: 2, Name: "there"})
			}
			if d.IntN(15) == 0 && seed%3 != 1 {
				facts = append(facts, timeline.Sync{Source: 2, At: e.Seen, Min: 5 * time.Second, Max: 5*time.Second +
					d.between(0, 50*ms)})
			}
			for _, f := range facts {
				tracker.Add(f)
				whole.Add(f)
			}
			if d.IntN(3) == 0 {
				events := tracker.Brief().Events
				shown, copies = append(shown, events), append(copies, slices.Clone(events))
			}
		}
		got, want := tracker.Brief().Events, whole.Brief().Events
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: placed as they came\n%+v\nat once\n%+v", seed, got, want)
		}
		for i := range shown {
			if !reflect.DeepEqual(shown[i], copies[i]) {
				t.Fatalf("seed %d: a timeline that was handed out has changed", seed)
			}
			if !reflect.DeepEqual(shown[i], want[:len(shown[i])]) {
				moved++
			}
		}
	}
	if moved < 100 {
		t.Errorf("in %d timelines an event moved later: too few to tell", moved)
	}
}
