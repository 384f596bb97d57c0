package direct

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/internal/run/measure"
	"lapse/loadgen"
	"lapse/timeline"
)

// A planner plays events to a plan of 100 requests per second, and does what that says.
type planner struct {
	*Plan
	now       time.Duration
	unwatched bool // Pods are
}

func newPlanner(ports ...string) *planner {
	return &planner{Plan: NewPlan(100, Most, ports...)}
}

// does returns what is done now: "web-1 http 10.0.0.1 100/s", "web-1 http 10.0.0.1 stop".
func (p *planner) does() (done []string) {
	for _, c := range p.Changes(p.now) {
		what := fmt.Sprintf("%g/s", c.Rate)
		if !c.Probe {
			what = "stop"
		}
		if c.Probed != c.Probe {
			c.Turned = p.now
		}
		c.Probed, c.Endpoint.Rate = c.Probe, c.Rate
		done = append(done, strings.Join(strings.Fields(fmt.Sprint(c.Pod.Name, " ", c.Port, " ", c.Addr.Addr(), " ", what)), " "))
	}
	return done
}

// endpoint plays a change of web-N's endpoint.
func (p *planner) endpoint(n int, port, to string) { p.at(fmt.Sprintf("10.0.0.%d", n), n, port, to) }

func (p *planner) at(addr string, n int, port, to string) {
	if !p.unwatched && !p.isGone(podObject(n).UID) {
		p.pod(n, timeline.PodSeen, "Running")
	}
	p.Learn(timeline.Event{Seen: p.now, Kind: timeline.EndpointChanged, To: to, Object: podObject(n), Addr: netip.MustParseAddr(addr), Port: 8080, PortName: port})
}

func (p *planner) pod(n int, kind timeline.EventKind, to string) {
	p.Learn(timeline.Event{Seen: p.now, Kind: kind, To: to, Object: podObject(n)})
}

func podObject(n int) timeline.Object {
	return timeline.Object{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", n), UID: fmt.Sprint("uid-", n)}
}

func checkDoes(t *testing.T, p *planner, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, p.does()); diff != "" {
		t.Errorf("at %v (-want +got):\n%s", p.now, diff)
	}
}

func TestEndpointInTransitionGetsTheWholeBudget(t *testing.T) {
	p := newPlanner("http")
	p.endpoint(1, "http", timeline.EndpointReady)
	p.endpoint(2, "http", timeline.EndpointReady)
	checkDoes(t, p, "web-1 http 10.0.0.1 50/s", "web-2 http 10.0.0.2 50/s")
	p.endpoint(1, "http", timeline.EndpointTerminating)
	checkDoes(t, p, "web-1 http 10.0.0.1 100/s", "web-2 http 10.0.0.2 100/s")
	p.endpoint(1, "http", timeline.EndpointAbsent)
	checkDoes(t, p)
	p.pod(1, timeline.PodGone, "")
	checkDoes(t, p, "web-1 http 10.0.0.1 stop")
}

func TestEveryMeasuredPortAndFamilyIsProbedWithinOneBudget(t *testing.T) {
	p := newPlanner("http", "metrics")
	p.endpoint(1, "http", timeline.EndpointReady)
	p.endpoint(1, "metrics", timeline.EndpointReady)
	p.endpoint(1, "unmeasured", timeline.EndpointReady)
	p.at("fd00::1", 1, "http", timeline.EndpointReady)
	p.at("fd00::1", 1, "metrics", timeline.EndpointReady)
	checkDoes(t, p, "web-1 http 10.0.0.1 25/s", "web-1 metrics 10.0.0.1 25/s", "web-1 http fd00::1 25/s", "web-1 metrics fd00::1 25/s")
	p.pod(1, timeline.PodGone, "")
	checkDoes(t, p, "web-1 http 10.0.0.1 stop", "web-1 metrics 10.0.0.1 stop", "web-1 http fd00::1 stop", "web-1 metrics fd00::1 stop")
}

// A controller that lags takes the endpoint of a Pod away when that is gone for long.
func TestPodThatIsGoneIsNotProbedAnewWhenItsEndpointChanges(t *testing.T) {
	p := newPlanner("http")
	p.endpoint(1, "http", timeline.EndpointReady)
	p.does()
	p.pod(1, timeline.PodGone, "")
	checkDoes(t, p, "web-1 http 10.0.0.1 stop")
	for _, to := range []string{timeline.EndpointTerminating, timeline.EndpointAbsent} {
		p.endpoint(1, "http", to)
		checkDoes(t, p)
	}
}

// Who watches for weeks forgets Pods that ended long ago, and each of their targets once.
func TestEndpointsThatEndedAreForgotten(t *testing.T) {
	p := newPlanner("http")
	p.endpoint(0, "http", timeline.EndpointReady) // stays
	p.endpoint(1, "http", timeline.EndpointReady) // is not ready for hours, and its slice is gone
	p.endpoint(1, "http", timeline.EndpointAbsent)
	var forgotten []timeline.TargetID
	for n := range 200 {
		p.endpoint(n+2, "http", timeline.EndpointReady)
		p.does()
		last := p.Order[len(p.Order)-1]
		last.Target = timeline.TargetID(n + 1)
		p.now += time.Hour
		p.pod(n+2, timeline.PodGone, "")
		p.pod(1000+n, timeline.PodGone, "") // it had no endpoint
		if forgotten = append(forgotten, p.Forget(p.now-time.Minute)...); slices.Contains(forgotten, last.Target) {
			t.Fatalf("target %d was forgotten while it was asked", last.Target)
		}
		p.does()
	}
	if len(p.Order) != 3 || len(p.endpoints) != 3 || len(p.gone) > 3 {
		t.Errorf("%d endpoints, %d, %d gone Pods", len(p.Order), len(p.endpoints), len(p.gone))
	}
	if len(forgotten) != 199 || forgotten[0] != 1 || forgotten[198] != 199 {
		t.Errorf("%d targets: %v", len(forgotten), forgotten)
	}
}

// The Service's selector changes and is changed back. The watches of Pods and of EndpointSlices bring that in any
// order.
func TestPodThatComesBackIsProbedAgain(t *testing.T) {
	leave := func(p *planner) { p.pod(1, timeline.PodGone, ""); p.endpoint(1, "http", timeline.EndpointAbsent) }
	seen := func(p *planner) { p.pod(1, timeline.PodSeen, "Running") }
	ready := func(p *planner) { p.endpoint(1, "http", timeline.EndpointReady) }
	for name, back := range map[string][]func(*planner){"Pod first": {seen, ready}, "endpoint first": {ready, seen}} {
		t.Run(name, func(t *testing.T) {
			p := newPlanner("http")
			p.endpoint(1, "http", timeline.EndpointReady)
			p.does()
			p.Order[0].Target = 7
			leave(p)
			checkDoes(t, p, "web-1 http 10.0.0.1 stop")
			for _, step := range back {
				step(p)
			}
			checkDoes(t, p, "web-1 http 10.0.0.1 100/s")
			if len(p.Order) != 1 || p.Order[0].Target != 7 {
				t.Errorf("%d endpoints, the first with target %d: want the same one as before", len(p.Order), p.Order[0].Target)
			}
		})
	}
}

func TestEndpointThatStaysNotReadyFallsBackToItsShare(t *testing.T) {
	p := newPlanner("http")
	for n := range 4 {
		p.endpoint(n, "http", timeline.EndpointReady)
	}
	p.does()
	p.now = time.Minute
	p.endpoint(0, "http", timeline.EndpointNotReady)
	if got := p.does(); !slices.Contains(got, "web-0 http 10.0.0.0 100/s") {
		t.Fatalf("%q, want web-0 at the whole budget", got)
	}
	p.now += hurryFor - 1
	checkDoes(t, p)
	p.now++
	checkDoes(t, p, "web-0 http 10.0.0.0 25/s", "web-1 http 10.0.0.1 25/s", "web-2 http 10.0.0.2 25/s", "web-3 http 10.0.0.3 25/s")
	p.endpoint(0, "http", timeline.EndpointTerminating)
	if got := p.does(); !slices.Contains(got, "web-0 http 10.0.0.0 100/s") {
		t.Errorf("%q, want web-0 at the whole budget again", got)
	}
}

func TestManyEndpointsInTransitionShareFourBudgets(t *testing.T) {
	p := newPlanner("http")
	for n := range 8 {
		p.endpoint(n, "http", timeline.EndpointTerminating)
	}
	for _, did := range p.does() {
		if !strings.HasSuffix(did, " 50/s") {
			t.Errorf("%s, want 50/s", did)
		}
	}
}

func TestPodWithAnotherAddressIsProbedThereOnly(t *testing.T) {
	p := newPlanner("http")
	p.endpoint(1, "http", timeline.EndpointReady)
	p.does()
	p.at("10.0.0.99", 1, "http", timeline.EndpointReady) // it has a new sandbox
	p.at("10.0.0.1", 1, "http", timeline.EndpointAbsent)
	checkDoes(t, p, "web-1 http 10.0.0.1 stop", "web-1 http 10.0.0.99 100/s")
}

func TestFailedPodIsNotProbedThoughItsObjectStays(t *testing.T) {
	p := newPlanner("http")
	p.endpoint(1, "http", timeline.EndpointReady)
	p.does()
	p.pod(1, timeline.PodPhase, "Failed")
	checkDoes(t, p, "web-1 http 10.0.0.1 stop")
}

func TestEndpointWithoutPodEndsWithItsRemoval(t *testing.T) {
	p := newPlanner("http")
	change := timeline.Event{Kind: timeline.EndpointChanged, To: timeline.EndpointReady, Object: timeline.Object{Kind: "EndpointSlice", Name: "by-hand"}, Addr: netip.MustParseAddr("192.0.2.7"), Port: 80, PortName: "http"}
	p.Learn(change)
	checkDoes(t, p, "by-hand http 192.0.2.7 100/s")
	change.To = timeline.EndpointAbsent
	p.Learn(change)
	checkDoes(t, p, "by-hand http 192.0.2.7 stop")
}

// The EndpointSlices of a Service without a selector may name Pods, which are not watched.
func TestEndpointOfAPodThatIsNotWatchedEndsWithItsRemoval(t *testing.T) {
	p := newPlanner("http")
	p.unwatched = true
	p.endpoint(1, "http", timeline.EndpointReady)
	checkDoes(t, p, "web-1 http 10.0.0.1 100/s")
	p.endpoint(1, "http", timeline.EndpointAbsent)
	checkDoes(t, p, "web-1 http 10.0.0.1 stop")
	p.endpoint(1, "http", timeline.EndpointReady)
	checkDoes(t, p, "web-1 http 10.0.0.1 100/s")
}

func TestARunOutOfTargetIDsStartsNoFurtherTarget(t *testing.T) {
	m := &measure.Loop{NextTarget: math.MaxUint32}
	if err := m.StartTarget(loadgen.Probe{}); err == nil || !strings.Contains(err.Error(), "4294967295 targets") {
		t.Errorf("one target more: %v", err)
	}
}

// probes names what is probed now, after what is to be done was done.
func (p *planner) probes() (names []string) {
	p.does()
	for _, ep := range p.Order {
		if ep.Probed {
			names = append(names, ep.Pod.Name)
		}
	}
	return names
}

func TestOfManyEndpointsTheLeavingAndTheNewAreProbedAndTheOthersInTurn(t *testing.T) {
	p := newPlanner("http")
	p.most = 4
	check := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, p.probes()); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", p.now, diff)
		}
	}
	for n := range 10 {
		p.endpoint(n, "http", timeline.EndpointReady)
	}
	check("web-0", "web-1", "web-2", "web-3")
	p.now = youngFor - 1
	check("web-0", "web-1", "web-2", "web-3")
	p.now = youngFor
	check("web-4", "web-5", "web-6", "web-7") // what has never been probed
	p.now += sampleFor - 1
	check("web-4", "web-5", "web-6", "web-7")
	p.now++
	check("web-0", "web-1", "web-8", "web-9") // what has waited longest
	p.endpoint(3, "http", timeline.EndpointTerminating)
	p.endpoint(11, "http", timeline.EndpointReady)
	check("web-0", "web-1", "web-3", "web-11")
	p.now += youngFor
	check("web-2", "web-3", "web-4", "web-5")
	for _, n := range []int{5, 6, 7, 8, 9} { // more than can be probed: those that are go on
		p.now += time.Second
		p.endpoint(n, "http", timeline.EndpointTerminating)
	}
	check("web-3", "web-5", "web-8", "web-9")
	p.now += time.Second
	p.endpoint(0, "http", timeline.EndpointTerminating)
	check("web-3", "web-5", "web-8", "web-9")
}

func TestTheBudgetIsSharedByThoseThatAreProbed(t *testing.T) {
	p := newPlanner("http")
	p.most = 2
	for n := range 5 {
		p.endpoint(n, "http", timeline.EndpointReady)
	}
	checkDoes(t, p, "web-0 http 10.0.0.0 50/s", "web-1 http 10.0.0.1 50/s")
}
