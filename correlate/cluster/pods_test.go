package cluster

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// A container that is to be started again is no Pod that comes up.
func TestPodThatBacksOffAfterACrashIsCrashed(t *testing.T) {
	web := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1"}
	event := func(at time.Duration, kind timeline.EventKind, to, detail string) model.Event {
		return model.Event{Event: timeline.Event{Seen: at, Kind: kind, To: to, Detail: detail,
			Object: web}, At: model.Instant{Earliest: at, Latest: at}}
	}
	for about, test := range map[string]struct {
		events []model.Event
		want   string
	}{
		"crashes, waits and is started again": {[]model.Event{
			event(0, timeline.PodSeen, "Running", ""), event(0, timeline.PodScheduled, "node1", ""),
			event(0, timeline.PodContainer, "running", "app"), event(0, timeline.PodReady, "true", ""),
			event(5*time.Second, timeline.PodContainer, "terminated", "app Error"),
			event(5*time.Second, timeline.PodReady, "false", ""),
			event(6*time.Second, timeline.PodContainer, "waiting", "app CrashLoopBackOff"),
			event(16*time.Second, timeline.PodContainer, "running", "app"), event(17*time.Second, timeline.PodReady,
				"true", ""),
		}, "0s ready, 5s crashed, 16s running, 17s ready"},
		"was backing off when first seen": {[]model.Event{
			event(0, timeline.PodSeen, "Running", "listed"), event(0, timeline.PodScheduled, "node1", ""),
			event(0, timeline.PodContainer, "waiting", "app CrashLoopBackOff"),
		}, "0s crashed"},
		"is only coming up": {[]model.Event{
			event(0, timeline.PodSeen, "Pending", ""), event(0, timeline.PodScheduled, "node1", ""),
			event(0, timeline.PodContainer, "waiting", "app ContainerCreating"),
		}, "0s creating"},
	} {
		pods := Lifecycles(&model.Timeline{Events: test.events}, nil)
		var states []string
		for _, s := range pods[0].States {
			states = append(states, fmt.Sprintf("%v %s", s.Start, s.State))
		}
		if got := strings.Join(states, ", "); got != test.want {
			t.Errorf("a Pod that %s: %s, want %s", about, got, test.want)
		}
	}
}

// A Service's selector is changed and restored. The Pods were there all the time.
func TestPodThatComesBackIsNotGone(t *testing.T) {
	web := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1"}
	event := func(at time.Duration, kind timeline.EventKind, from, to string) model.Event {
		return model.Event{Event: timeline.Event{Seen: at, Kind: kind, From: from, To: to,
			Object: web, Addr: netip.MustParseAddr("10.0.0.1"), Port: 8080}, At: model.Instant{Earliest: at, Latest: at}}
	}
	pod := Lifecycles(&model.Timeline{Events: []model.Event{
		event(0, timeline.PodSeen, "", "Running"), event(0, timeline.PodReady, "", "true"),
		event(0, timeline.EndpointChanged, "", "ready"),
		event(5*time.Second, timeline.EndpointChanged, "ready", "absent"), event(5*time.Second, timeline.PodGone, "",
			""),
		event(9*time.Second, timeline.PodSeen, "", "Running"), event(9*time.Second, timeline.PodReady, "", "true"),
		event(9*time.Second, timeline.EndpointChanged, "absent", "ready"),
	}}, nil)[0]
	if got, want := fmt.Sprint(pod.States),
		fmt.Sprint([]model.PodState{{Start: 0, State: "ready"}, {Start: 5 * time.Second, State: "gone"},
			{Start: 9 * time.Second, State: "ready"}}); got != want {
		t.Errorf("states %s, want %s", got, want)
	}
	if pod.Gone != nil || pod.EndpointRemoved != nil {
		t.Errorf("gone %v, endpoint removed %v; want neither", pod.Gone, pod.EndpointRemoved)
	}
}

// A Pod that no Service selects any more is not watched: it lives on, or not.
func TestPodThatIsNoLongerSelectedIsNotKnownToBeGone(t *testing.T) {
	web := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1"}
	pod := Lifecycles(&model.Timeline{Events: []model.Event{
		{Event: timeline.Event{Kind: timeline.PodSeen, Object: web}},
		{Event: timeline.Event{Kind: timeline.PodGone, Object: web, Seen: time.Second,
			Detail: timeline.NoLongerSelected}},
	}}, nil)[0]
	if pod.Gone != nil || !pod.Left() {
		t.Errorf("gone %v, left %v; want only that it has left", pod.Gone, pod.Left())
	}
}

// An EvictionRequest may be deleted long after its Pod: no Pod of the run comes of that.
func TestAnEvictionRequestMakesNoPod(t *testing.T) {
	gone := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "u0"}
	pods := Lifecycles(&model.Timeline{Events: []model.Event{{Event: timeline.Event{
		Kind: timeline.EvictionRequested, From: "Eviction", To: "absent", Object: gone,
	}}}}, nil)
	if len(pods) > 0 {
		t.Errorf("%+v", pods)
	}
}

// Of a dual stack each address family has slices of its own, of which one is changed after the other; and a port may
// leave the Service.
func TestPodLeavesWithTheLastOfItsEndpoints(t *testing.T) {
	web := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1"}
	event := func(at time.Duration, addr string, from, to string) model.Event {
		return model.Event{Event: timeline.Event{Seen: at, Kind: timeline.EndpointChanged,
			From: from, To: to, Object: web, Addr: netip.MustParseAddr(addr), Port: 8080}, At: model.Instant{Earliest: at, Latest: at}}
	}
	events := []model.Event{
		{Event: timeline.Event{Kind: timeline.PodSeen, Object: web}}, {Event: timeline.Event{Kind: timeline.PodReady, To: "true", Object: web}},
		event(0, "10.0.0.1", "", "ready"), event(0, "fd00::1", "", "ready"),
		event(5*time.Second, "fd00::1", "ready", "terminating"), event(5*time.Second, "fd00::1", "terminating",
			"absent"),
	}
	pod := Lifecycles(&model.Timeline{Events: events}, nil)[0]
	if got, want := fmt.Sprint(pod.States), fmt.Sprint([]model.PodState{{Start: 0, State: "ready"}}); got != want ||
		pod.EndpointNotReady != nil || pod.EndpointRemoved != nil {
		t.Errorf("with one of two endpoints gone: states %s, not ready %v, removed %v; want ready all the time", got,
			pod.EndpointNotReady, pod.EndpointRemoved)
	}
	events = append(events, event(6*time.Second, "10.0.0.1", "ready", "absent"))
	if pod = Lifecycles(&model.Timeline{Events: events}, nil)[0]; pod.EndpointNotReady == nil ||
		pod.EndpointNotReady.Latest != 6*time.Second || pod.EndpointRemoved == nil {
		t.Errorf("with both gone: not ready %v, removed %v; want both at 6 s", pod.EndpointNotReady,
			pod.EndpointRemoved)
	}
}

// One Service has the Pod from its start until it has gone, another one while it is ready.
func TestPodOfTwoServicesHasTheInstantsOfEach(t *testing.T) {
	web := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1"}
	event := func(second int, service, from, to string) model.Event {
		at := time.Duration(second) * time.Second
		return model.Event{At: model.Instant{Earliest: at, Latest: at}, Event: timeline.Event{
			Seen: at, Kind: timeline.EndpointChanged, From: from, To: to, Service: service, Object: web,
			Addr: netip.MustParseAddr("10.0.0.1"), Port: 8080}}
	}
	events := []model.Event{
		{Event: timeline.Event{Kind: timeline.PodSeen, Object: web}},
		event(1, "shop/peers", "absent", "ready"), event(2, "shop/web", "absent", "not-ready"),
		event(5, "shop/web", "not-ready", "ready"),
		event(10, "shop/web", "ready", "terminating"), event(11, "shop/web", "terminating", "absent"),
		event(20, "shop/peers", "ready", "absent"),
	}
	pod := Lifecycles(&model.Timeline{Events: events}, nil)[0]
	for service, want := range map[string]string{
		"": "1s 20s 20s", "shop/peers": "1s 20s 20s", "shop/web": "5s 10s 11s",
	} {
		var changes []*model.Event
		for i := range events {
			if e := &events[i]; e.Kind == timeline.EndpointChanged && (service == "" || e.Service == service) {
				changes = append(changes, e)
			}
		}
		p := OfEndpoints(&pod, changes, nil)
		if got := fmt.Sprint(p.EndpointReady.Latest, p.EndpointNotReady.Latest, p.EndpointRemoved.Latest); got != want {
			t.Errorf("of Service %q: ready, not ready and removed at %s, want %s", service, got, want)
		}
		if same := p == &pod; same != (service != "shop/web") {
			t.Errorf("of Service %q: the same Pod: %v", service, same)
		}
	}
}

// A Service whose targetPort is changed has each Pod at one port no more, and at another, in one update.
func TestPodThatOnlyMovesToAnotherPortDoesNotLeave(t *testing.T) {
	web := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1"}
	event := func(id uint32, at time.Duration, port uint16, from, to string) model.Event {
		return model.Event{Event: timeline.Event{ID: id, Seen: at,
			Kind: timeline.EndpointChanged, From: from, To: to, Object: web, Addr: netip.MustParseAddr("10.0.0.1"), Port: port}, At: model.Instant{Earliest: at, Latest: at}}
	}
	events := []model.Event{
		{Event: timeline.Event{ID: 1, Kind: timeline.PodSeen, Object: web}}, {Event: timeline.Event{ID: 2, Kind: timeline.PodReady, To: "true", Object: web}},
		event(3, time.Second, 8080, "not-ready", "ready"),
		event(4, 5*time.Second, 8080, "ready", "absent"), event(5, 5*time.Second, 8081, "absent", "ready"),
	}
	pod := Lifecycles(&model.Timeline{Events: events}, nil)[0]
	if pod.EndpointNotReady != nil || pod.EndpointRemoved != nil || pod.EndpointReady == nil ||
		pod.EndpointReady.Latest != time.Second {
		t.Errorf("ready %v, not ready %v, removed %v; want ready from 1 s on", pod.EndpointReady, pod.EndpointNotReady,
			pod.EndpointRemoved)
	}
	events = append(events, event(6, 8*time.Second, 8081, "ready", "absent"))
	if pod = Lifecycles(&model.Timeline{Events: events}, nil)[0]; pod.EndpointNotReady == nil ||
		pod.EndpointNotReady.Latest != 8*time.Second || pod.EndpointRemoved == nil {
		t.Errorf("not ready %v, removed %v; want both at 8 s", pod.EndpointNotReady, pod.EndpointRemoved)
	}
}

// A Pod has a direct target for each port and address family. It has stopped when none answers.
func TestPodHasStoppedWhenNoneOfItsAddressesAnswers(t *testing.T) {
	second := func(n int) *timeline.Request {
		at := time.Duration(n) * time.Second
		return &timeline.Request{Due: at, Sent: at, Done: at + time.Millisecond}
	}
	web := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1"}
	run := &model.Timeline{Events: []model.Event{{Event: timeline.Event{Kind: timeline.PodSeen, Object: web}}}}
	edges := map[timeline.TargetID]windows.FirstLast{
		1: {FirstOK: second(1), LastOK: second(9)}, 2: {FirstOK: second(0), LastOK: second(5), LastFailure: second(6),
			Stopped: &model.Instant{Earliest: 5 * time.Second, Latest: 6*time.Second + time.Millisecond}},
	}
	for id := range timeline.TargetID(2) {
		run.Targets = append(run.Targets, model.Target{Target: timeline.Target{ID: id + 1, Kind: timeline.Direct, PodUID: "u1"}})
	}
	firstLast := func(id timeline.TargetID) windows.FirstLast { return edges[id] }
	if pod := Lifecycles(run, firstLast)[0]; pod.Stopped != nil || *pod.FirstOK != time.Millisecond ||
		*pod.LastOK != 9*time.Second || *pod.LastFailure != 6*time.Second {
		t.Errorf("one of two ports stopped: %+v", pod)
	}
	edges[1] = windows.FirstLast{FirstOK: second(1), LastOK: second(9), LastFailure: second(10),
		Stopped: &model.Instant{Earliest: 9 * time.Second, Latest: 10*time.Second + time.Millisecond}}
	if pod := Lifecycles(run, firstLast)[0]; pod.Stopped == nil ||
		*pod.Stopped != (model.Instant{Earliest: 9 * time.Second, Latest: 10*time.Second + time.Millisecond}) {
		t.Errorf("both stopped: %+v, want it stopped when the later one did", pod.Stopped)
	}
}
