package flight

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/timeline"
)

const s = time.Second

// feed gives a ring a request each second, due from an instant to another, in a batch of its own.
func feed(r *Ring, from, to time.Duration) {
	for due := from; due < to; due += s {
		r.Add(timeline.Batch{FirstSeq: uint64(due / s), Requests: []timeline.Request{{Target: 1, Seq: uint64(due / s),
			Due: due, Sent: due, Done: due + time.Millisecond}}, Watermarks: []timeline.Watermark{{Target: 1, Due: due + s}}})
		r.Forget(due)
	}
}

// batches returns the requests of facts, and fails if their numbers leave one out.
func batches(t *testing.T, facts []timeline.Fact) (requests []timeline.Request) {
	t.Helper()
	for _, f := range facts {
		if b, ok := f.(timeline.Batch); ok {
			if b.FirstSeq != uint64(len(requests)) {
				t.Errorf("a batch begins with number %d after %d requests", b.FirstSeq, len(requests))
			}
			requests = append(requests, b.Requests...)
		}
	}
	return requests
}

// A run that begins after an hour has the last two minutes, on a clock of its own, and what follows is on it too.
func TestARunBeginsWhereTheRingDoes(t *testing.T) {
	var r Ring
	r.Add(timeline.Target{ID: 1, Name: "new", Rate: 1})
	feed(&r, 0, time.Hour)
	facts, shift := r.Take(time.Hour)
	requests := batches(t, facts)
	if len(requests) != int(Span/s) || requests[0].Due != 0 || requests[0].Sent != 0 || requests[len(requests)-1].Due != Span-s {
		t.Errorf("%d requests, from %v to %v", len(requests), requests[0].Due, requests[len(requests)-1].Due)
	}
	next := shift.Place(timeline.Batch{FirstSeq: 3600, Requests: []timeline.Request{{Due: time.Hour, Sent: time.Hour,
		Done: time.Hour + s}}, Watermarks: []timeline.Watermark{{Due: time.Hour + s}}}).(timeline.Batch)
	if next.FirstSeq != uint64(len(requests)) || next.Requests[0].Due != Span || next.Watermarks[0].Due != Span+s {
		t.Errorf("the next batch is %+v", next)
	}
	if e := shift.Place(timeline.Event{Seen: time.Hour, Since: time.Hour - Span}).(timeline.Event); e.Seen != Span || e.Since == 0 {
		t.Errorf("an event is placed at %v, since %v: 0 would be no bound", e.Seen, e.Since)
	}
	if len(r.recent) > int(Span/s)+2 || cap(r.recent) > 4*int(Span/s) {
		t.Errorf("the ring holds %d facts, of %d", len(r.recent), cap(r.recent))
	}
}

// Requests that were lost before they came stay lost in a run that begins later.
func TestARunKnowsWhichRequestsWereLost(t *testing.T) {
	var r Ring
	r.Add(timeline.Target{ID: 1, Name: "new", Rate: 1})
	feed(&r, 0, 1000*s)
	feed(&r, 1010*s, 1020*s)
	facts, shift := r.Take(1020 * s)
	facts = append(facts, shift.Place(timeline.Batch{FirstSeq: 1020, Requests: []timeline.Request{{Due: 1020 * s}}}))
	var jumps []uint64
	next := uint64(0)
	for _, f := range facts {
		if b, ok := f.(timeline.Batch); ok {
			if b.FirstSeq != next {
				jumps = append(jumps, b.FirstSeq-next)
			}
			next = b.FirstSeq + uint64(len(b.Requests))
		}
	}
	if !slices.Equal(jumps, []uint64{10}) {
		t.Errorf("jumps of %v", jumps)
	}
}

// The ring lets go of facts once a second. A run that begins between has none of before its own beginning.
func TestARunThatBeginsBetweenTwoLooksHasNothingOfBefore(t *testing.T) {
	r := Ring{Here: 1, Clocks: Clocks{}}
	now := time.Hour + 500*time.Millisecond
	begin := (now - Span).Truncate(s)
	r.Add(timeline.Source{ID: 2})
	r.Add(timeline.Target{ID: 1, Source: 2})
	feed(&r, 0, begin)
	r.Add(timeline.Sync{Source: 2, At: begin + 400*time.Millisecond})
	feed(&r, begin+s, time.Hour+s)
	facts, _ := r.Take(now)
	syncs := 0
	for _, f := range facts {
		if c, ok := f.(timeline.Sync); ok {
			if syncs++; c.At < 0 {
				t.Errorf("a comparison of clocks at %v", c.At)
			}
		}
	}
	if syncs != 1 {
		t.Errorf("%d comparisons", syncs)
	}
}

// A run that begins soon after its process has all of it, as it is.
func TestARunThatBeginsSoonHasEverything(t *testing.T) {
	var r Ring
	feed(&r, 0, 10*s)
	facts, shift := r.Take(10 * s)
	if n := len(batches(t, facts)); n != 10 || shift.By != 0 {
		t.Errorf("%d requests, %+v", n, shift)
	}
}

// A request that was due before the ring begins is not in it, also if it ended later.
func TestARequestThatWasDueBeforeIsLeftOut(t *testing.T) {
	var r Ring
	feed(&r, 0, 300*s)
	r.Add(timeline.Batch{FirstSeq: 300, Requests: []timeline.Request{
		{Due: 100 * s, Sent: 100 * s, Done: 300 * s, Outcome: timeline.Outcome{Class: timeline.TimeoutResponse}},
		{Due: 300 * s, Sent: 300 * s, Done: 301 * s},
	}})
	facts, shift := r.Take(301 * s)
	requests := batches(t, facts)
	if last := requests[len(requests)-1]; last.Class != timeline.OK || requests[0].Due < 0 {
		t.Errorf("from %v to %+v", requests[0].Due, last)
	}
	if next := shift.Place(timeline.Batch{FirstSeq: 302}).(timeline.Batch); next.FirstSeq != uint64(len(requests)) {
		t.Errorf("after %d requests the next batch has number %d", len(requests), next.FirstSeq)
	}
}

// The rate where the ring begins is that of the target, and a change in the ring stays one.
func TestATargetHasTheRateOfWhereTheRingBegins(t *testing.T) {
	rate := func(at time.Duration, to string) timeline.Event {
		return timeline.Event{Kind: timeline.RateChanged, Seen: at, To: to, Object: timeline.Object{Kind: "Target", Name: "new"}}
	}
	var r Ring
	r.Add(timeline.Target{ID: 1, Name: "new", Rate: 5})
	r.Add(rate(10*s, "100"))
	r.Add(rate(900*s, "5"))
	r.Add(rate(3599*s, "100"))
	facts, _ := r.Take(time.Hour)
	var got []timeline.Fact
	for _, f := range facts {
		switch f := f.(type) {
		case timeline.Target:
			got = append(got, f)
		case timeline.Event:
			if f.Kind == timeline.RateChanged {
				got = append(got, f)
			}
		}
	}
	want := []timeline.Fact{timeline.Target{ID: 1, Name: "new", Rate: 5}, rate(119*s, "100")}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// A target that ended before the ring and begins again is described once, also if it has no requests yet.
func TestATargetThatBeginsAgainIsDescribed(t *testing.T) {
	is := func(at time.Duration, from, to string) timeline.Event {
		return timeline.Event{Kind: timeline.TargetChanged, Seen: at, From: from, To: to, Object: timeline.Object{Kind: "Target", Name: "direct"}}
	}
	again := timeline.Target{ID: 1, Name: "direct", Rate: 2}
	gone := timeline.Target{ID: 2, Name: "gone"}
	var r Ring
	r.Add(timeline.Target{ID: 1, Name: "direct", Rate: 1})
	r.Add(gone)
	r.Add(is(s, "", "measuring"))
	r.Add(is(2*s, "measuring", "ended"))
	r.Add(timeline.Event{Kind: timeline.TargetChanged, Seen: 2 * s, To: "ended", Object: timeline.Object{Kind: "Target", Name: "gone"}})
	r.Forget(time.Hour)
	r.Add(again)
	r.Add(is(time.Hour-s, "ended", "measuring"))
	facts, _ := r.Take(time.Hour)
	want := []timeline.Fact{again, is(Span-s, "ended", "measuring")}
	if diff := cmp.Diff(want, facts, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// What a prober on another node measured is placed on a clock of its own that begins where the run does, and its
// comparison with the run's clock is the same as before. A prober that was lost before is none of the run's. The next one
// of its node may have joined before that was known.
func TestFactsOfOtherClocksBeginWhereTheRingDoes(t *testing.T) {
	for name, overlap := range map[string]bool{"one after the other": false, "both at once": true} {
		t.Run(name, func(t *testing.T) { otherClocks(t, overlap) })
	}
}

func otherClocks(t *testing.T, overlap bool) {
	const ahead, began = -1000 * s, 300 * s // the prober's clock is 1000 s ahead, and its Pod was replaced at 300 s
	clocks := Clocks{}
	r := Ring{Here: 1, Clocks: clocks}
	join := func(id timeline.SourceID, name string, at time.Duration) {
		r.Add(timeline.Source{ID: id, Name: name, Node: "node2", T0: time.Unix(5000, 0)})
		clocks[id] = timeline.Sync{Source: id, At: at - ahead, Min: ahead - time.Millisecond, Max: ahead + time.Millisecond}
		r.Add(clocks[id])
		r.Add(timeline.Target{ID: timeline.TargetID(id), Source: id, Name: name, Rate: 1})
		r.Add(timeline.Backend{Source: id})
	}
	r.Add(timeline.Source{ID: 1, Name: "here"})
	join(2, "before", 0)
	lost := timeline.Event{Source: 1, Seen: began, Kind: timeline.ProberChanged, To: "lost", Object: timeline.Object{Kind: "Node", Name: "node2"}}
	if overlap {
		join(3, "prober", began)
		r.Add(lost)
	} else {
		r.Add(lost)
		join(3, "prober", began)
	}
	seq := uint64(0)
	for at := began; at < time.Hour; at += s {
		due := at - ahead
		r.Add(timeline.Batch{Source: 3, FirstSeq: seq, Requests: []timeline.Request{{Target: 3, Seq: seq, Due: due, Sent: due, Done: due}}})
		seq++
		r.Forget(at)
	}
	if len(r.targets) != 1 || r.targets[0].ended {
		t.Errorf("%d targets are kept, the first %+v", len(r.targets), r.targets[0])
	}
	facts, shift := r.Take(time.Hour)
	var sources []timeline.Source
	var syncs []timeline.Sync
	backends := 0
	for _, f := range facts {
		switch f := f.(type) {
		case timeline.Source:
			sources = append(sources, f)
		case timeline.Sync:
			syncs = append(syncs, f)
		case timeline.Backend:
			backends++
		}
	}
	if len(sources) != 1 || sources[0].Name != "prober" || backends != 1 {
		t.Fatalf("sources %+v, %d backends", sources, backends)
	}
	if got, want := sources[0].T0, time.Unix(5000, 0).Add(time.Hour-Span-ahead); !got.Equal(want) {
		t.Errorf("its zero is %v, want %v", got, want)
	}
	// the run's clock and its own begin at one instant; an hour after the last comparison that is known to 3.3 s
	slack := time.Duration(1e-3*float64(time.Hour-Span-began)) + 1
	if want := (timeline.Sync{Source: 3, Min: -time.Millisecond - slack, Max: time.Millisecond + slack}); len(syncs) != 1 || syncs[0] != want {
		t.Errorf("comparisons %+v, want %+v", syncs, want)
	}
	requests := batches(t, facts)
	if len(requests) != int(Span/s) || requests[0].Due != 0 {
		t.Errorf("%d requests, from %v", len(requests), requests[0].Due)
	}
	at := time.Hour - ahead
	next := shift.Place(timeline.Batch{Source: 3, FirstSeq: seq, Requests: []timeline.Request{{Due: at}}}).(timeline.Batch)
	if next.FirstSeq != uint64(len(requests)) || next.Requests[0].Due != Span {
		t.Errorf("the next batch is %+v", next)
	}
	cut := shift.Place(timeline.Batch{Source: 3, FirstSeq: seq + 1, Requests: []timeline.Request{{Due: began - ahead}, {Due: at + s}}}).(timeline.Batch)
	if cut.FirstSeq != next.FirstSeq+1 || len(cut.Requests) != 1 || cut.Requests[0].Due != Span+s {
		t.Errorf("what was measured before the run began is in a late batch: %+v", cut)
	}
	if after := shift.Place(timeline.Batch{Source: 3, FirstSeq: seq + 3}).(timeline.Batch); after.FirstSeq != cut.FirstSeq+1 {
		t.Errorf("the batch after has number %d", after.FirstSeq)
	}
	if got := shift.Place(timeline.Sync{Source: 3, At: at, Min: ahead, Max: ahead}); got != (timeline.Sync{Source: 3, At: Span}) {
		t.Errorf("the next comparison is %+v", got)
	}
	// one that joins now keeps its clock
	if got, want := shift.Place(timeline.Sync{Source: 4, At: s, Min: time.Hour, Max: time.Hour}), (timeline.Sync{Source: 4, At: s, Min: Span, Max: Span}); got != want {
		t.Errorf("the first comparison of a new prober is %+v", got)
	}
}

// Of watermarks without requests, the ring keeps the last one of each target, besides those that came since it has looked.
func TestWatermarksWithoutRequestsAreThinned(t *testing.T) {
	r := Ring{Here: 1, Clocks: Clocks{}}
	r.Add(timeline.Target{ID: 1, Source: 1})
	r.Add(timeline.Target{ID: 2, Source: 1})
	requests := uint64(0)
	for at := time.Duration(0); at < time.Hour; at += s {
		b := timeline.Batch{Source: 1, FirstSeq: requests, Watermarks: []timeline.Watermark{{Target: 1, Due: at + s}}}
		if at < time.Hour-Span/2 { // the other one has ended
			b.Watermarks = append(b.Watermarks, timeline.Watermark{Target: 2, Due: at + s})
		}
		if at%(20*s) == 0 {
			b.Requests = []timeline.Request{{Target: 1, Seq: requests, Due: at, Sent: at, Done: at}}
			requests++
		}
		r.Add(b)
		r.Forget(at)
	}
	if n := len(r.recent); n > int(Span/(20*s))+int(thinEvery/s)+2 {
		t.Errorf("%d facts are kept", n)
	}
	facts, _ := r.Take(time.Hour)
	last := map[timeline.TargetID]time.Duration{}
	for _, f := range facts {
		if b, ok := f.(timeline.Batch); ok {
			for _, w := range b.Watermarks {
				if w.Due < last[w.Target] {
					t.Errorf("a watermark of target %d is %v, after %v", w.Target, w.Due, last[w.Target])
				}
				last[w.Target] = w.Due
			}
		}
	}
	if got := batches(t, facts); len(got) != int(Span/(20*s)) || last[1] != Span || last[2] != Span/2 {
		t.Errorf("%d requests, up to %v", len(got), last)
	}
}

// Pods come and go by other names, which their replies have, and other addresses. What is kept does not grow, and defines
// each name and address that a request of the ring has.
func TestWhatNothingRefersToIsForgotten(t *testing.T) {
	r := Ring{Here: 1, Clocks: Clocks{}, ForgetUnused: 30 * time.Minute}
	r.Add(timeline.Target{ID: 1, Source: 1})
	r.Add(timeline.Peer{Source: 1, ID: 9999}) // of a connection that is kept for ever
	seldom := timeline.Backend{Source: 1, ID: 9999, Name: "seldom"}
	r.Add(seldom)
	var name timeline.Backend
	const end = 48 * time.Hour
	for at := time.Duration(0); at < end; at += s {
		if at%(10*time.Minute) == 0 {
			name = timeline.Backend{Source: 1, ID: uint16(at / (10 * time.Minute)), Name: fmt.Sprint("web-", at)}
			r.Add(name)
			r.Add(timeline.Peer{Source: 1, ID: name.ID})
		}
		q := timeline.Request{Target: 1, Seq: uint64(at / s), Due: at, Sent: at, Done: at, Outcome: timeline.Outcome{Backend: name.ID, Peer: name.ID}}
		if at%(15*time.Minute) == 0 {
			q.Backend, q.Peer = seldom.ID, 9999
		}
		r.Add(timeline.Batch{Source: 1, FirstSeq: q.Seq, Requests: []timeline.Request{q}})
		r.Forget(at)
	}
	facts, _ := r.Take(end)
	var names []string
	var peers []uint16
	for _, f := range facts {
		switch f := f.(type) {
		case timeline.Backend:
			names = append(names, f.Name)
		case timeline.Peer:
			peers = append(peers, f.ID)
		}
	}
	if len(names) > 5 || !slices.Contains(names, "seldom") || !slices.Contains(names, name.Name) {
		t.Errorf("defined are %q", names)
	}
	if len(peers) > 5 || !slices.Contains(peers, 9999) || !slices.Contains(peers, name.ID) {
		t.Errorf("defined are the peers %d", peers)
	}
}

// That a prober was missing is told in each run of a guard: its node may not be measured from any more. A run that
// waits for its one disruption has told it before.
func TestAProberThatWasMissingIsToldAnew(t *testing.T) {
	for again, want := range map[bool]int{true: 0, false: 1} {
		r := Ring{Here: 1, Clocks: Clocks{}, Again: again}
		r.Add(timeline.Event{Source: 1, Seen: s, Kind: timeline.ProberChanged, To: "missing", Object: timeline.Object{Kind: "Node", Name: "node1"}})
		r.Forget(time.Hour)
		if got := r.keyframe.events(0); len(got) != want {
			t.Errorf("with runs to follow: %v, the keyframe has %+v", again, got)
		}
	}
}

// Nodes come and go by other names, each with a prober. What is kept does not grow, and has the probers of nodes that
// are there. Where nodes are not watched, the last ones that were lost may be of nodes that are there.
func TestProbersOfNodesThatAreGoneAreForgotten(t *testing.T) {
	for name, watched := range map[string]bool{"watched": true, "not watched": false} {
		r := Ring{Here: 1, Clocks: Clocks{}}
		add := func(at time.Duration, kind timeline.EventKind, to, node string) {
			r.Add(timeline.Event{Source: 1, Seen: at, Kind: kind, To: to, Object: timeline.Object{Kind: "Node", Name: node, UID: "uid-" + node}})
		}
		prober := func(at time.Duration, to, node string) {
			r.Add(timeline.Event{Source: 1, Seen: at, Kind: timeline.ProberChanged, To: to, Object: timeline.Object{Kind: "Node", Name: node, Node: node}})
		}
		at := time.Duration(0)
		for n := range 1000 {
			node := fmt.Sprint("node", n)
			if watched {
				add(at, timeline.NodeSchedulable, "true", node)
			}
			prober(at+s, "measuring", node)
			if n == 0 {
				continue // it stays
			}
			if prober(at+2*s, "lost", node); watched {
				add(at+3*s, timeline.NodeGone, "", node)
			}
			if n%2 == 0 { // its Pod is deleted with it, or after it
				prober(at+4*s, "lost", node)
			}
			at += time.Minute
			r.Forget(at)
		}
		r.Forget(at + time.Hour)
		var probers []string
		for _, e := range r.keyframe.events(0) {
			if e.Kind == timeline.ProberChanged {
				probers = append(probers, e.Object.Name+" "+e.To)
			}
		}
		most := 1
		if !watched {
			most += mostLost
		}
		if len(probers) != most || probers[0] != "node0 measuring" || !watched && probers[most-1] != "node999 lost" || len(r.keyframe.state) > most+1 || len(r.keyframe.order) > 3*most+16 {
			t.Errorf("%s: %d of %d states: %q", name, len(probers), len(r.keyframe.state), probers)
		}
	}
}

// A recording has whole microseconds: so has the instant at which the run begins.
func TestARunBeginsAtAWholeMicrosecond(t *testing.T) {
	var r Ring
	if _, shift := r.Take(time.Hour + 1234*time.Nanosecond); shift.By != time.Hour-Span+time.Microsecond {
		t.Errorf("it begins at %v", shift.By)
	}
}

// The keyframe says how things were where the ring begins, as a first list does: what has gone is not in it, and what
// changed is as it was last.
func TestTheKeyframeIsTheStateWhereTheRingBegins(t *testing.T) {
	node := timeline.Object{Kind: "Node", Name: "node1", UID: "n1", Node: "node1"}
	pod := func(name string) timeline.Object { return timeline.Object{Kind: "Pod", Name: name, UID: "uid-" + name} }
	placed := pod("b")
	placed.Node = "node1"
	addr := netip.MustParseAddr("10.0.0.1")
	endpoint := func(at time.Duration, of timeline.Object, from, to string) timeline.Event {
		return timeline.Event{Seen: at, Kind: timeline.EndpointChanged, Object: of, Service: "shop/web", Addr: addr, Port: 80, From: from, To: to}
	}
	template := func(id string) timeline.Event {
		return timeline.Event{Kind: timeline.SnapshotTaken, To: timeline.SnapshotFound, Snapshot: &timeline.Snapshot{Template: &timeline.PodTemplate{ID: id}}}
	}
	deployment := timeline.Object{Kind: "Deployment", Name: "web", UID: "d"}
	changed := &timeline.Snapshot{Workload: &timeline.Workload{Generation: 2, Replicas: 3}}
	var r Ring
	for _, e := range []timeline.Event{
		{Seen: s, Kind: timeline.WatchLane, To: "on", Object: timeline.Object{Kind: "Pod"}},
		{Seen: s, Kind: timeline.NodeReady, To: "true", Object: node},
		{Seen: s, Kind: timeline.NodeSchedulable, To: "true", Object: node},
		{Seen: s, Kind: timeline.NodeTaint, To: "present", Detail: "a=b:NoSchedule", Object: node},
		{Seen: s, Kind: timeline.PodSeen, To: "Running", Detail: "listed", Object: pod("a"), Template: "older"},
		template("older"),
		{Seen: s, Kind: timeline.PodReady, To: "true", Object: pod("a")},
		endpoint(s, pod("a"), "", timeline.EndpointReady),
		{Seen: s, Kind: timeline.SnapshotTaken, To: timeline.SnapshotFound, Detail: "2 of 2 ready", Object: deployment, Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Generation: 1, Replicas: 2}}},
		{Seen: s, Kind: timeline.EvictionRequested, From: "absent", To: "Eviction", Detail: "one", Object: pod("a")},
		{Seen: 2 * s, Kind: timeline.KubeEvent, To: "Killing", Object: pod("a")},
		{Seen: 2 * s, Kind: timeline.NodeSchedulable, From: "true", To: "false", Object: node},
		{Seen: 2 * s, Kind: timeline.NodeTaint, From: "present", To: "absent", Detail: "a=b:NoSchedule", Object: node},
		{Seen: 3 * s, Kind: timeline.PodSeen, To: "Pending", Detail: "watched", Object: pod("b"), Template: "t"},
		template("t"),
		{Seen: 3 * s, Kind: timeline.PodScheduled, To: "node1", Object: placed},
		{Seen: 3 * s, Kind: timeline.EvictionRequested, From: "absent", To: "Eviction", Detail: "two", Object: placed},
		{Seen: 3 * s, Kind: timeline.EvictionRequested, From: "absent", To: "Eviction", Detail: "three", Object: placed},
		{Seen: 4 * s, Kind: timeline.PodPhase, From: "Pending", To: "Running", Object: placed},
		endpoint(4*s, pod("a"), timeline.EndpointReady, timeline.EndpointAbsent),
		{Seen: 5 * s, Kind: timeline.PodGone, Object: pod("a")},
		{Seen: 5 * s, Kind: timeline.EvictionRequested, From: "Eviction", To: "absent", Detail: "one", Object: pod("a")},
		{Seen: 5 * s, Kind: timeline.EvictionRequested, From: "Eviction", To: "absent", Detail: "two", Object: placed},
		{Seen: 5 * s, Kind: timeline.EvictionRequested, From: "Eviction", To: "Withdrawn", Detail: "three", Object: placed},
		endpoint(5*s, placed, timeline.EndpointAbsent, timeline.EndpointReady),
		{Seen: 6 * s, Kind: timeline.SnapshotTaken, To: timeline.SnapshotChanged, Detail: "replicas: 2 → 3", Actor: "me", Object: deployment, Snapshot: changed},
		{Seen: time.Hour - s, Kind: timeline.NodeSchedulable, From: "false", To: "true", Object: node},
	} {
		r.Add(e)
	}
	facts, _ := r.Take(time.Hour)
	want := []timeline.Fact{
		timeline.Event{Kind: timeline.WatchLane, To: "on", Object: timeline.Object{Kind: "Pod"}},
		timeline.Event{Kind: timeline.NodeReady, To: "true", Object: node},
		timeline.Event{Kind: timeline.NodeSchedulable, To: "false", Object: node},
		timeline.Event{Kind: timeline.SnapshotTaken, To: timeline.SnapshotFound, Object: deployment, Snapshot: changed},
		timeline.Event{Kind: timeline.PodSeen, To: "Running", Detail: "listed", Object: placed, Template: "t"},
		template("t"),
		timeline.Event{Kind: timeline.PodScheduled, To: "node1", Object: placed},
		timeline.Event{Kind: timeline.EvictionRequested, To: "Withdrawn", Detail: "three", Object: placed},
		endpoint(0, placed, "", timeline.EndpointReady),
		timeline.Event{Seen: Span - s, Kind: timeline.NodeSchedulable, From: "false", To: "true", Object: node},
	}
	if diff := cmp.Diff(want, facts, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// A run knows of a rollout that began before its ring does whether all of it was watched: not if it began long before, or
// in the run before.
func TestARunKnowsWhetherARolloutWasWatched(t *testing.T) {
	deployment := timeline.Object{Kind: "Deployment", Name: "web", UID: "d"}
	snapshot := &timeline.Snapshot{Workload: &timeline.Workload{Replicas: 3}}
	const changed = time.Hour
	for _, tt := range []struct {
		cut, begin time.Duration
		watched    bool
	}{
		{0, changed + 5*time.Minute, true},
		{0, changed + 20*time.Minute, false},
		{changed - time.Minute, changed + 5*time.Minute, true},
		{changed + s, changed + 5*time.Minute, false},
		{changed + time.Minute + Span, changed + 5*time.Minute, false},
	} {
		r := Ring{Here: 1, Clocks: Clocks{}}
		cut := false
		for at := time.Duration(0); at <= tt.begin; at += s {
			switch at {
			case s:
				r.Add(timeline.Event{Source: 1, Seen: at, Kind: timeline.SnapshotTaken, To: timeline.SnapshotFound, Detail: "3 of 3 ready", Object: deployment, Snapshot: snapshot})
			case changed:
				r.Add(timeline.Event{Source: 1, Seen: at, Kind: timeline.SnapshotTaken, To: timeline.SnapshotChanged, Detail: "image", Object: deployment, Snapshot: snapshot})
			case changed + 10*s:
				r.Add(timeline.Event{Source: 1, Seen: at, Kind: timeline.SnapshotTaken, To: timeline.SnapshotStatus, Detail: "2 of 3 ready", Object: deployment, Snapshot: snapshot})
			}
			if r.Forget(at); !cut && tt.cut > 0 && at >= tt.cut {
				cut = true
				r.Cut(r.At(tt.cut))
			}
		}
		facts, _ := r.Take(tt.begin)
		detail := facts[0].(timeline.Event).Detail
		if watched := detail == timeline.SnapshotFollowed; watched != tt.watched {
			t.Errorf("cut at %v, a run from %v on: %q", tt.cut, tt.begin-Span, detail)
		}
	}
}

// The memory of a process that waits for a week stays as it is, however many Pods come and go.
func TestAWeekOfPodsTakesNoMemory(t *testing.T) {
	var r Ring
	for i := range 10_000 {
		at := time.Duration(i) * time.Minute
		id := time.Duration(i).String()
		pod := timeline.Object{Kind: "Pod", UID: id}
		for _, e := range []timeline.Event{
			{Kind: timeline.PodSeen, Template: id},
			{Kind: timeline.SnapshotTaken, Snapshot: &timeline.Snapshot{Template: &timeline.PodTemplate{ID: id}}},
			{Kind: timeline.PodReady},
			{Kind: timeline.PodGone},
		} {
			e.Seen, e.Object = at, pod
			r.Add(e)
		}
		r.Forget(at)
	}
	if n := len(r.keyframe.state) + len(r.keyframe.order) + len(r.recent); n > 100 {
		t.Errorf("%d entries are kept", n)
	}
}

// After a run the ring begins where that ended, although it could hold more: no request is measured twice, and what is
// still so is known.
func TestARingThatIsCutBeginsThere(t *testing.T) {
	var r Ring
	r.Add(timeline.Target{ID: 1, Name: "new", Rate: 10})
	node := timeline.Object{Kind: "Node", Name: "node1", UID: "n1"}
	r.Add(timeline.Event{Kind: timeline.NodeSchedulable, Seen: 990 * s, From: "true", To: "false", Object: node})
	r.Add(timeline.Batch{FirstSeq: 40, Requests: []timeline.Request{
		{Target: 1, Seq: 40, Due: 999 * s, Done: 1001 * s}, {Target: 1, Seq: 41, Due: 1000 * s, Done: 1000 * s}, {Target: 1, Seq: 42, Due: 1001 * s, Done: 1001 * s},
	}})
	r.Cut(r.At(1000 * s))
	facts, shift := r.Take(1010 * s)
	if shift.By != 1000*s {
		t.Errorf("it begins at %v", shift.By)
	}
	var seqs []uint64
	cordoned := false
	for _, f := range facts {
		switch f := f.(type) {
		case timeline.Batch:
			if f.FirstSeq != 0 {
				t.Errorf("the first request has number %d", f.FirstSeq)
			}
			for _, q := range f.Requests {
				seqs = append(seqs, q.Seq)
			}
		case timeline.Event:
			cordoned = cordoned || f.Kind == timeline.NodeSchedulable && f.To == "false" && f.Seen == 0
		}
	}
	if len(seqs) != 2 || seqs[0] != 41 || seqs[1] != 42 || !cordoned {
		t.Errorf("requests %v, cordoned %v", seqs, cordoned)
	}
	if _, shift := r.Take(2000 * s); shift.By != 2000*s-Span {
		t.Errorf("later it begins at %v", shift.By)
	}
}
