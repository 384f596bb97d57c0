package correlate

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A Service is measured from nodes whose routes follow a change each at its own time, by probers whose clocks are off
// by seconds. What is said of each node holds the truth.
func TestRoutesOfEachNodeHoldTheTruth(t *testing.T) {
	wrong, known, narrow := 0, 0, 0
	for seed := range uint64(seeds(100)) {
		s := newSeveralNodes(seed)
		tl := analyzed(t, s.run())
		for _, r := range tl.Routes {
			truth := s.left[r.Node]
			if r.Change == model.Addition {
				truth = s.came[r.Node]
			}
			known++
			if truth < r.Changed.Earliest || r.Changed.Latest < truth {
				wrong++
				t.Logf("seed %d: %s of %s at %s: %v, and it was %v", seed, r.Change, r.Pod, r.Node, r.Changed, truth)
			}
			if !r.Open && r.Changed.Latest-r.Changed.Earliest < 700*time.Millisecond {
				narrow++
			}
		}
	}
	if wrong > known/200 || known < 6*seeds(100)*9/10 || narrow < known*9/10 {
		t.Errorf("of %d routes %d are wrong, and %d known well", known, wrong, narrow)
	}
}

// A Service with session affinity, or that prefers Pods nearby, may send a node to one Pod for long after its routes
// have taken in another one: answers of others in a row do not show that they have not.
func TestANodeThatPrefersAPodIsNotBehind(t *testing.T) {
	for _, spec := range []timeline.ServiceSpec{{Affinity: "ClientIP"}, {Distribution: "PreferSameNode"}} {
		s := newSeveralNodes(1)
		s.pinned = &spec
		for i, node := range s.nodes {
			s.came[node] = nodesLeave - 5*time.Second + time.Duration(i)*100*time.Millisecond
			s.left[node] = nodesLeave + 9*time.Second
		}
		run := s.run()
		for i := range run.Events {
			switch e := &run.Events[i]; {
			case e.Object.Name == "comes":
				e.Seen = nodesLeave - 5*time.Second - 100*time.Millisecond
			case e.Object.Name == "leaves" && e.From == timeline.EndpointReady:
				e.Seen = nodesLeave + 9*time.Second - 100*time.Millisecond
			}
		}
		slices.SortStableFunc(run.Events, func(a, b timeline.Event) int { return cmp.Compare(a.Seen, b.Seen) })
		for i := range run.Events {
			run.Events[i].ID = uint32(i + 1)
		}
		tl, additions := analyzed(t, run), 0
		for _, r := range tl.Routes {
			if r.Change != model.Addition {
				continue
			}
			additions++
			if truth := s.came[r.Node]; r.Changed.Earliest > truth || r.Changed.Latest < truth {
				t.Errorf("%+v: %s at %s: %v, and it was %v", spec, r.Pod, r.Node, r.Changed, truth)
			}
		}
		if additions != len(s.nodes) || len(tl.Late) > 0 {
			t.Errorf("%+v: %d additions, late: %+v", spec, additions, tl.Late)
		}
	}
}

// Without probers on nodes there is nothing to compare, and a Pod whose endpoint went twice has no answer that
// belongs to one of the two.
func TestRoutesAreOfProbersAndOfOneChange(t *testing.T) {
	s := newSeveralNodes(1)
	run := s.run()
	for i := range run.Sources {
		run.Sources[i].Role = timeline.Coordinator
	}
	if tl, err := Analyze(run, Options{}); err != nil || len(tl.Routes) > 0 {
		t.Errorf("%d routes without probers, %v", len(tl.Routes), err)
	}
	s.flaps = true
	tl := analyzed(t, s.run())
	for _, r := range tl.Routes {
		if r.Change == model.Removal {
			t.Errorf("%s went twice: %+v", r.Pod, r)
		}
	}
}

// Pods of a StatefulSet follow each other under one name, and answer by it: whose answer one was is not known.
func TestRoutesOfPodsOfOneNameAreNotKnown(t *testing.T) {
	run := newSeveralNodes(1).run()
	for i := range run.Events {
		if o := &run.Events[i].Object; o.Name == "comes" {
			o.Name = "leaves" // its UID stays another
		}
	}
	if tl, err := Analyze(run, Options{}); err != nil || len(tl.Routes) > 0 {
		t.Errorf("%+v, %v: want nothing said of two Pods that answer alike", tl.Routes, err)
	}
}

// A Pod whose endpoint moves to another port answers as before: no route was slow to leave it.
func TestAnEndpointThatMovesToAnotherPortChangesNoRoute(t *testing.T) {
	run := newSeveralNodes(1).run()
	stays := run.Events[0].Object
	for port, change := range map[uint16][2]string{8080: {timeline.EndpointReady, timeline.EndpointAbsent},
		8081: {timeline.EndpointAbsent, timeline.EndpointReady}} {
		run.Events = append(run.Events, timeline.Event{
			ID: uint32(len(run.Events) + 1), Source: 1, Seen: 12 * time.Second, Kind: timeline.EndpointChanged,
			From: change[0], To: change[1], Service: "shop/web", Object: stays, Port: port,
		})
	}
	tl, err := Analyze(run, Options{})
	if err != nil || len(tl.Routes) == 0 {
		t.Fatalf("%d routes, %v", len(tl.Routes), err)
	}
	for _, r := range tl.Routes {
		if r.Pod == stays.Name {
			t.Errorf("%+v", r)
		}
	}
}

// severalNodes is a Service of two Pods, of which one goes on serving when its endpoint has left, and one that comes,
// seen from three nodes.
type severalNodes struct {
	random     *rand.Rand
	nodes      []string
	ahead      map[string]time.Duration // the run's clock, of each node's
	left, came map[string]time.Duration // when each node's routes followed, on the run's clock
	flaps      bool
	pinned     *timeline.ServiceSpec // sends node1 to the Pod that leaves for as long as that can be; nil: by chance
}

const (
	nodesLeave = 10 * time.Second
	nodesCome  = 15 * time.Second
	nodesEnd   = 25 * time.Second
)

func newSeveralNodes(seed uint64) *severalNodes {
	s := &severalNodes{random: rand.New(rand.NewPCG(seed, 3)), nodes: []string{"node1", "node2", "node3"},
		ahead: map[string]time.Duration{}, left: map[string]time.Duration{}, came: map[string]time.Duration{}}
	for _, node := range s.nodes {
		s.ahead[node] = time.Duration(s.random.Int64N(int64(4 * time.Second)))
		s.left[node] = nodesLeave + time.Duration(s.random.Int64N(int64(2*time.Second)))
		s.came[node] = nodesCome + time.Duration(s.random.Int64N(int64(2*time.Second)))
	}
	return s
}

func (s *severalNodes) run() timeline.Run {
	run := timeline.Run{Meta: timeline.Meta{ID: "nodes", Options: timeline.Options{Rate: 300, Timeout: caseTimeout,
		Join: time.Second, Duration: nodesEnd}}}
	run.Sources = []timeline.Source{{ID: 1, Name: "coordinator", Role: timeline.Coordinator, Node: "node1"}}
	var batches []timeline.Batch
	for i, node := range s.nodes {
		source, id := timeline.SourceID(i+2), timeline.TargetID(i+1)
		run.Sources = append(run.Sources, timeline.Source{ID: source, Name: "prober-" + node, Role: timeline.Prober,
			Node: node})
		run.Targets = append(run.Targets, timeline.Target{ID: id, Name: "new from " + node, Kind: timeline.New,
			Source: source, Service: "shop/web", Rate: 100, Timeout: caseTimeout})
		for b, pod := range []string{"", "stays", "leaves", "comes"} {
			if pod != "" {
				run.Backends = append(run.Backends, timeline.Backend{Source: source, ID: uint16(b), Name: pod})
			}
		}
		for at := time.Duration(0); at < nodesEnd; at += time.Second {
			ahead := s.ahead[node]
			run.Syncs = append(run.Syncs, timeline.Sync{Source: source, At: at, Min: ahead - time.Millisecond,
				Max: ahead + time.Millisecond})
		}
		var requests []timeline.Request
		for due := time.Duration(0); due+s.ahead[node] < nodesEnd; due += 10 * time.Millisecond {
			routes, at := []uint16{1}, due+s.ahead[node]
			if at < s.left[node] {
				routes = append(routes, 2)
			}
			if at >= s.came[node] {
				routes = append(routes, 3)
			}
			if s.pinned != nil && node == "node1" && at < s.left[node] {
				routes = []uint16{2}
			}
			requests = append(requests, timeline.Request{
				Target: id, Seq: uint64(len(requests)), Due: due, Sent: due, Done: due + time.Millisecond,
				Outcome: timeline.Outcome{Class: timeline.OK, Backend: routes[s.random.IntN(len(routes))]},
			})
		}
		batches = append(batches, timeline.Batch{Source: source, Requests: requests,
			Watermarks: []timeline.Watermark{{Target: id, Due: nodesEnd}}})
	}
	change := func(at time.Duration, pod, from, to string) {
		run.Events = append(run.Events, timeline.Event{
			Source: 1, Seen: at, Kind: timeline.EndpointChanged, From: from, To: to, Service: "shop/web",
			Object: timeline.Object{Kind: "Pod", Namespace: "shop", Name: pod, UID: pod},
		})
	}
	if s.pinned != nil {
		run.Events = append(run.Events, timeline.Event{Source: 1, Kind: timeline.SnapshotTaken,
			Object:   timeline.Object{Kind: "Service", Namespace: "shop", Name: "web", UID: "web"},
			Snapshot: &timeline.Snapshot{Service: s.pinned}})
	}
	change(time.Millisecond, "stays", "", timeline.EndpointReady)
	change(time.Millisecond, "leaves", "", timeline.EndpointReady)
	if s.flaps {
		change(nodesLeave-2*time.Second, "leaves", timeline.EndpointReady, timeline.EndpointNotReady)
		change(nodesLeave-time.Second, "leaves", timeline.EndpointNotReady, timeline.EndpointReady)
	}
	change(nodesLeave, "leaves", timeline.EndpointReady, timeline.EndpointTerminatingServing)
	change(nodesCome, "comes", timeline.EndpointNotReady, timeline.EndpointReady)
	run.Events = append(run.Events, timeline.Event{Source: 1, Seen: nodesEnd, Kind: timeline.RunPhase, To: "ended"})
	for i := range run.Events {
		run.Events[i].ID = uint32(i + 1)
	}
	run.Batches = func(yield func(timeline.Batch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
	return run
}
