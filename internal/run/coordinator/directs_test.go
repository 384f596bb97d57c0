package coordinator

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/internal/run/direct"
	"lapse/internal/run/spec"
	"lapse/timeline"
	"lapse/watcher"
)

// A guard forgets the targets of Pods that ended before any run to come. While one goes on, it forgets none.
func TestTargetsOfPodsThatEndedAreForgotten(t *testing.T) {
	o := &spec.Options{Spec: spec.Spec{Rate: 100, DirectRate: 10, Kinds: []string{"new"}, Scheme: "http", Method: "GET"}}
	s := spec.Target{Service: "web", Path: "/a"}
	o.Parsed = []spec.Target{s}
	m, _ := idleMeasurement(t, o)
	m.Services = []spec.Service{{Target: s, Measured: true, Info: watcher.Info{
		Service: timeline.Service{Namespace: "shop", Name: "web", ClusterIP: "10.96.0.9"}, Port: 80, PortName: "http",
	}}}
	m.Describe(m.meta(), m.describeSource())
	m.planDirects()
	m.Phase = timeline.PhaseArmed
	now := m.Clock.Now()
	turn := func(pod int) {
		of := timeline.Object{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", pod), UID: fmt.Sprint(pod)}
		m.followEndpoints(timeline.Event{Seen: now, Kind: timeline.EndpointChanged, To: timeline.EndpointReady,
			Service: "shop/web", Object: of, Addr: netip.MustParseAddr("10.0.0.1"), Port: 8080, PortName: "http"})
		now += time.Hour
		m.followEndpoints(timeline.Event{Seen: now, Kind: timeline.PodGone, Object: of})
	}
	for pod := range 20 {
		turn(pod)
		m.followPlans(now + forgetEnded/2)
	}
	if len(m.Targets) != 1 || len(m.plans[0].Order) != 1 {
		t.Errorf("%d targets are kept, %d endpoints", len(m.Targets), len(m.plans[0].Order))
	}
	m.Phase = timeline.PhaseMeasuring
	for pod := range 20 {
		turn(20 + pod)
		m.followPlans(now + forgetEnded/2)
	}
	if len(m.Targets) != 21 {
		t.Errorf("%d targets are kept during a run", len(m.Targets))
	}
}

// Several routes of a Service are targets of their own, each told from the others by its name.
func TestEachWayToAServiceIsATarget(t *testing.T) {
	o := &spec.Options{Spec: spec.Spec{Rate: 100, Kinds: []string{"new", "reused"}, Scheme: "http", Method: "GET"}}
	s := spec.Target{Service: "web", Routes: "clusterip,nodeport", Path: "/a"}
	o.Parsed = []spec.Target{s}
	m, _ := idleMeasurement(t, o)
	info := watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "web", ClusterIP: "10.96.0.9"}, Port: 80, PortName: "http", Ways: []watcher.Way{
		{Route: "clusterip", Port: 80}, {Route: "nodeport", At: "node2", Host: "172.30.0.2", Port: 30080, Node: "node2"},
	}}
	m.Services = []spec.Service{{Target: s, Info: info, Measured: true}}
	var got []string
	for _, p := range o.ProbesOf(m.Services[0]) {
		got = append(got, fmt.Sprintf("%s: %s %s", p.Name, p.URL, p.RouteNode))
	}
	want := []string{
		"web clusterip new: http://10.96.0.9:80/a ", "web clusterip reused: http://10.96.0.9:80/a ",
		"web nodeport node2 new: http://172.30.0.2:30080/a node2", "web nodeport node2 reused: http://172.30.0.2:30080/a node2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.Targets = map[timeline.TargetID]timeline.Target{}
	byHand := &direct.Endpoint{Key: direct.Key{Addr: netip.MustParseAddrPort("192.0.2.9:8080"), Port: "http"}, Pod: timeline.Object{Kind: "EndpointSlice", Namespace: "shop", Name: "web-1"}}
	if p, ok := m.directProbe("shop/web", byHand, 1); !ok || p.Pod != "" || p.Name != "web direct 192.0.2.9:8080" {
		t.Errorf("an endpoint that was made by hand is %q of Pod %q", p.Name, p.Pod)
	}
	p, ok := m.directProbe("shop/web", &direct.Endpoint{Key: direct.Key{Addr: netip.MustParseAddrPort("10.0.0.1:8080"), Port: "http"}}, 1)
	if !ok || p.Route != "" || p.RouteNode != "" || p.Turns || p.URL != "http://10.0.0.1:8080/a" {
		t.Errorf("an endpoint itself is asked as %+v", p)
	}
	for id, want := range []string{"web direct web-0", "web direct web-0 10.0.0.5:8080", "web direct web-0 10.0.0.5:8080 (2)", "web direct web-0 10.0.0.5:8080 (3)"} {
		back := &direct.Endpoint{Key: direct.Key{Addr: netip.MustParseAddrPort("10.0.0.5:8080"), Port: "http"}, Pod: timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: fmt.Sprint(id)}}
		p, ok := m.directProbe("shop/web", back, 1)
		if !ok || p.Name != want {
			t.Errorf("the Pod that was there %d times before is %q, want %q", id, p.Name, want)
		}
		m.Targets[timeline.TargetID(id+1)] = p.Target
	}
}
