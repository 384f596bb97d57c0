package watcher

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Several ports, address families and Services of one run: what is recorded once, and what for each.

// withMetrics gives a slice the port metrics, 9090, beside http.
func withMetrics(s *discoveryv1.EndpointSlice) {
	s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("metrics"), Port: new(int32(9090))})
}

func TestTwoPortsOfAServiceAreToldOfOnePodOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1), with(slice("web-a", endpointOf(pod(1), ready)), withMetrics))
		c.services[0].Ports = []string{"http", "metrics"}
		c.start()
		c.expect(append(lanesOn,
			"0s pod-seen web-1 on=node1 addr=10.0.0.1 >Running stamp=01 (listed)",
			"0s pod-scheduled web-1 on=node1 addr=10.0.0.1 >node1 stamp=02",
			"0s pod-ready web-1 on=node1 addr=10.0.0.1 >true stamp=04 by=kubelet/node1",
			"0s pod-container web-1 on=node1 addr=10.0.0.1 >running stamp=03 by=kubelet/node1 (app)",
			"0s endpoint web-1 on=node1 addr=10.0.0.1 >ready port=8080",
			"0s endpoint web-1 on=node1 addr=10.0.0.1 >ready port=9090 portName=metrics",
		)...)
		time.Sleep(time.Second)
		c.putPod(with(pod(1), deleted))
		c.putSlice(with(slice("web-a", endpointOf(pod(1), terminating)), withMetrics))
		c.expect("1s pod-deleted web-1 on=node1 addr=10.0.0.1 grace=30s stamp=10",
			"1s endpoint web-1 on=node1 addr=10.0.0.1 ready>terminating port=8080",
			"1s endpoint web-1 on=node1 addr=10.0.0.1 ready>terminating port=9090 portName=metrics")
		c.end()
	})
}

func TestPodsOfTwoServicesAreToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := with(service(), func(s *corev1.Service) { s.Name, s.UID = "inner", "inner" })
		of := func(service string, s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
			s.Labels[discoveryv1.LabelServiceName] = service
			return s
		}
		c := newCluster(t, service(), inner, pod(1), node("node1"),
			slice("web-a", endpointOf(pod(1), ready)), of("inner", slice("inner-a", endpointOf(pod(1), ready))))
		c.services = append(c.services, Service{"shop", "inner", []string{"http"}})
		c.start()
		got := c.happened()
		for _, line := range []string{
			"0s pod-seen web-1 on=node1 addr=10.0.0.1 >Running stamp=01 (listed)",
			"0s pod-ready web-1 on=node1 addr=10.0.0.1 >true stamp=04 by=kubelet/node1",
			"0s node-ready node1 >true stamp=00",
			"0s watch-lane [Event] >on of=shop/web,shop/inner",
			"0s watch-lane [Pod] >on of=shop/web,shop/inner",
			"0s watch-lane [Service] >on of=shop/web,shop/inner",
			"0s watch-lane [EndpointSlice] >on of=shop/web,shop/inner",
			"0s watch-lane [Node] >on",
		} {
			if n := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != line })); n != 1 {
				t.Errorf("%q was recorded %d times, want once", line, n)
			}
		}
		time.Sleep(time.Second)
		c.putPod(with(pod(1), deleted))
		_, err := c.client.CoreV1().Events("shop").Create(t.Context(), event("web-1.a", "web-1", nothing), metav1.CreateOptions{})
		c.check(err)
		c.deletePod("web-1")
		c.expect("1s pod-deleted web-1 on=node1 addr=10.0.0.1 grace=30s stamp=10",
			"1s kube-event web-1 on=node1 >Killing stamp=07 by=kubelet/node1 (Stopping container app)",
			"1s pod-gone web-1 on=node1 addr=10.0.0.1")
		c.end()
	})
}

func TestPodThatOneOfTwoServicesLetsGoIsNotGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inner := with(service(), func(s *corev1.Service) { s.Name, s.UID = "inner", "inner" })
		c := newCluster(t, service(), inner, pod(1))
		c.services = append(c.services, Service{"shop", "inner", []string{"http"}})
		c.start()
		c.happened()
		time.Sleep(time.Second)
		_, err := c.client.CoreV1().Services("shop").Update(t.Context(), with(inner, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} }), metav1.UpdateOptions{})
		c.check(err)
		c.expect("1s service inner app=web>app=other (selector: app=web → app=other)", "1s watch-lane [Pod] >on of=shop/web,shop/inner")
		c.end()
	})
}

func TestAddressesOfBothFamiliesAreEndpointsOfOnePod(t *testing.T) {
	v6 := endpointOf(pod(1), ready)
	v6.Addresses = []string{"fd00::1"}
	checkLines(t, diffEndpoints(nil, merge(endpointsIn(slice("a", endpointOf(pod(1), ready)), slice("b", v6)), "http"), watched),
		"endpoint web-1 on=node1 addr=10.0.0.1 absent>ready port=8080",
		"endpoint web-1 on=node1 addr=fd00::1 absent>ready port=8080")
}

func TestPortThatGetsAnotherNumberIsAnotherEndpoint(t *testing.T) {
	before := merge(endpointsIn(slice("a", endpointOf(pod(1), ready))), "http")
	after := merge(endpointsIn(with(slice("a", endpointOf(pod(1), ready)), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(8081)) })), "http")
	checkLines(t, diffEndpoints(before, after, watched),
		"endpoint web-1 on=node1 addr=10.0.0.1 ready>absent port=8080",
		"endpoint web-1 on=node1 addr=10.0.0.1 absent>ready port=8081")
}

// What one list found gone has an order, and so the same history always gives the same recording.
func TestRelistTellsWhatWentInTheOrderOfNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		var want []string
		for n := range 40 {
			c.putPod(pod(n))
			want = append(want, fmt.Sprintf("0s pod-gone web-%d on=node1 addr=10.0.0.%d (relist)", n, n))
		}
		slices.SortFunc(want, func(a, b string) int { return slices.Compare([]byte(a), []byte(b)) })
		c.start()
		c.happened()
		expired := apierrors.NewResourceExpired("too old").ErrStatus
		c.refuse("list pods", errors.New("connection refused"))
		c.lastWatch("pods").Error(&expired)
		synctest.Wait()
		for n := range 40 {
			c.deletePod(fmt.Sprintf("web-%d", n))
		}
		c.allow("list pods")
		time.Sleep(2 * time.Second)
		var gone []string
		for _, line := range c.happened() {
			var at, kind string
			if fmt.Sscan(line, &at, &kind); kind == "pod-gone" {
				gone = append(gone, "0s"+line[len(at):])
			}
		}
		if !slices.Equal(gone, want) {
			t.Errorf("gone:\n%q\nwant in the order of their names:\n%q", gone, want)
		}
		c.end()
	})
}

// A watch that never ends holds no Event for ever: its memory would grow, and the gap that dropped ones leave is none of
// what it is asked about.
func TestEventsOfOthersAreHeldForAWhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		c.hold = time.Hour
		c.start()
		c.happened()
		events := c.lastWatch("events")
		for n := range 2 * maxHeld {
			if n%50 == 0 { // the fake holds 100
				synctest.Wait()
			}
			time.Sleep(time.Second)
			events.Add(event(fmt.Sprintf("other.%d", n), types.UID(fmt.Sprintf("other-%d", n)), nothing))
		}
		c.expect()
		c.end()
	})
}

// Nor does it keep what is known of Pods that are gone: their number has no end. Events about them still come for a
// while. A template that no Pod has any more is told again with its next Pod.
func TestPodsThatAreGoneAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		owned := func(n int) *corev1.Pod {
			return with(with(pod(n), ownedBy("ReplicaSet", "web-abc")), func(p *corev1.Pod) { p.Labels["version"] = "1" })
		}
		c := newCluster(t, service(), owned(1), owned(2))
		c.hold, c.all = time.Hour, true
		c.start()
		told := func(name string, about types.UID) (lines int) {
			c.happened()
			c.lastWatch("events").Add(event(name, about, nothing))
			return len(c.happened())
		}
		c.deletePod("web-1")
		time.Sleep(c.hold)
		if told("web-1.a", "web-1") != 1 {
			t.Error("an Event about a Pod that was gone for an hour was not recorded")
		}
		time.Sleep(time.Second)
		c.deletePod("web-2")
		if told("web-1.b", "web-1") != 0 {
			t.Error("a Pod that was gone for longer is known")
		}
		if told("web-abc.a", "web-abc") != 1 {
			t.Error("an Event about the owner of a Pod that has just gone was not recorded")
		}
		c.snapshotted()
		budget := func(name string, labels map[string]string) {
			_, err := c.client.PolicyV1().PodDisruptionBudgets("shop").Create(t.Context(), &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
				Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
			}, metav1.CreateOptions{})
			c.check(err)
		}
		budget("while-none", map[string]string{"app": "web"})
		c.wantSnapshots("while-none >created (0 of 0 Pods are healthy, 0 must be: 0 may be evicted)")
		newer := func(p *corev1.Pod) { p.Labels["version"] = "2" }
		c.putPod(with(owned(3), newer))
		c.putPod(with(owned(4), newer))
		c.wantSnapshots("web-abc >created (Pod template)")
		budget("older", map[string]string{"version": "1"})
		budget("newer", map[string]string{"version": "2"})
		c.wantSnapshots("newer >created (0 of 0 Pods are healthy, 0 must be: 0 may be evicted)")
		c.end()
	})
}

func TestEventsThatAreForgottenLeaveAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		c.start()
		c.happened()
		events := c.lastWatch("events")
		time.Sleep(time.Second)
		for n := range maxHeld {
			if n%50 == 0 { // the fake holds 100
				synctest.Wait()
			}
			events.Add(event(fmt.Sprintf("other.%d", n), types.UID(fmt.Sprintf("other-%d", n)), nothing))
		}
		c.expect()
		time.Sleep(time.Second)
		events.Add(event("other.last", "other-last", nothing))
		c.expect(fmt.Sprintf("2s watch-gap since=1s [Event] (%d Events were dropped, because so far their objects belong to no measured Service: of a Pod that comes to one later, earlier Events are missing)", maxHeld/2))
		c.end()
	})
}
