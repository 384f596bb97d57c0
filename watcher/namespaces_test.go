package watcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"lapse/internal/hint"
)

// Three Services in two namespaces: web and inner of shop, which share Pod 3, and web of bank, whose Pod is 4. Pod 9
// is nobody's.
func threeServices(t *testing.T) *cluster {
	inBank := func(o metav1.Object) { o.SetNamespace("bank") }
	inner := with(service(), func(s *corev1.Service) {
		s.Name, s.UID, s.Spec.Selector = "inner", "inner", map[string]string{"tier": "inner"}
	})
	other := with(service(), func(s *corev1.Service) { s.Name, s.UID = "other", "other" })
	bank := with(service(), func(s *corev1.Service) { inBank(s); s.UID = "bank-web" })
	innerSlice := with(slice("inner-a", endpointOf(sharedPod(), ready)), func(s *discoveryv1.EndpointSlice) {
		s.Labels[discoveryv1.LabelServiceName] = "inner"
	})
	bankSlice := with(slice("bank-a", endpointOf(bankPod(), ready)), func(s *discoveryv1.EndpointSlice) { inBank(s) })
	objects := []runtime.Object{
		service(), inner, other, bank, node("node1"), pod(1), sharedPod(), bankPod(), nobodysPod(),
		slice("web-a", endpointOf(pod(1), ready), endpointOf(sharedPod(), ready)), innerSlice, bankSlice,
	}
	c := newCluster(t, objects...)
	c.services = []Service{{"shop", "web", []string{"http"}}, {"bank", "web", []string{"http"}}, {"shop", "inner", []string{"http"}}}
	return c
}

func sharedPod() *corev1.Pod { return with(pod(3), func(p *corev1.Pod) { p.Labels["tier"] = "inner" }) }
func bankPod() *corev1.Pod   { return with(pod(4), func(p *corev1.Pod) { p.Namespace = "bank" }) }
func nobodysPod() *corev1.Pod {
	return with(pod(9), func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} })
}

const ofShop = " of=shop/web,shop/inner"

func TestThreeServicesInTwoNamespacesAreRecordedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := threeServices(t)
		c.start()
		want := []string{"0s watch-lane [Node] >on", "0s node-ready node1 >true stamp=00", "0s node-schedulable node1 >true"}
		for _, kind := range []string{"Service", "Pod", "EndpointSlice", "Event"} {
			want = append(want, "0s watch-lane ["+kind+"] >on"+ofShop, "0s watch-lane ["+kind+"] >on of=bank/web")
		}
		for _, n := range []int{1, 3, 4} {
			who := fmt.Sprintf("web-%d on=node1 addr=10.0.0.%d", n, n)
			want = append(want, "0s pod-seen "+who+" >Running stamp=01 (listed)", "0s pod-scheduled "+who+" >node1 stamp=02",
				"0s pod-ready "+who+" >true stamp=04 by=kubelet/node1", "0s pod-container "+who+" >running stamp=03 by=kubelet/node1 (app)",
				"0s endpoint "+who+" >ready port=8080")
		}
		want = append(want, "0s endpoint web-3 on=node1 addr=10.0.0.3 >ready port=8080") // of inner too
		c.expect(want...)
		for resource, n := range map[string]int{"pods": 2, "services": 2, "endpointslices": 2, "events": 2, "nodes": 1} {
			if got := c.count("watch " + resource); got != n {
				t.Errorf("%d watches of %s, want %d", got, resource, n)
			}
		}

		time.Sleep(time.Second)
		c.putPod(with(sharedPod(), deleted))
		c.putPod(with(nobodysPod(), deleted))
		for _, namespace := range []string{"shop", "bank"} { // bank has no Service of the name inner
			_, err := c.client.CoreV1().Events(namespace).Create(t.Context(), event("inner.a", "inner", func(e *corev1.Event) {
				e.Namespace, e.InvolvedObject.Namespace, e.InvolvedObject.Kind, e.InvolvedObject.UID = namespace, namespace, "Service", types.UID(namespace)
			}), metav1.CreateOptions{})
			c.check(err)
		}
		c.expect("1s pod-deleted web-3 on=node1 addr=10.0.0.3 grace=30s stamp=10",
			"1s kube-event inner uid=shop on=node1 >Killing stamp=07 by=kubelet/node1 (Stopping container app)")
		c.end()
	})
}

func TestGapOfANamespaceNamesItsServices(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := threeServices(t)
		c.start()
		c.happened()
		time.Sleep(time.Second)
		c.refuse("watch bank/pods", errors.New("connection refused"))
		c.lastWatch("bank/pods").Stop()
		time.Sleep(time.Second)
		c.allow("watch bank/pods")
		time.Sleep(2 * time.Second)
		c.expect("2.5s watch-gap [Pod] of=bank/web (the watch broke and was resumed: changes in between arrived late: watch pods: connection refused)")

		expired := apierrors.NewResourceExpired("too old").ErrStatus
		c.lastWatch("shop/pods").Error(&expired)
		c.expect("4s watch-gap [Pod]" + ofShop + " (the watch could not be resumed: all objects were listed again, and changes in between may be missing: watch pods: too old)")
		c.end()
	})
}

func TestNamespaceThatMayNotBeWatchedLeavesTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := threeServices(t)
		c.refuse("list bank/pods", forbidden("pods"))
		c.start()
		off := slices.DeleteFunc(c.happened(), func(line string) bool { return !strings.Contains(line, ">off") })
		slices.Sort(off)
		var want []string
		for _, kind := range []string{"EndpointSlice", "Event", "Pod", "Service"} {
			want = append(want, "0s watch-lane ["+kind+"] >off of=bank/web (no right to list pods: pods is forbidden: no role)")
		}
		if !slices.Equal(off, want) {
			t.Errorf("off: %q, want %q", off, want)
		}
		time.Sleep(time.Second)
		c.putPod(with(sharedPod(), deleted))
		c.putPod(with(bankPod(), deleted))
		c.expect("1s pod-deleted web-3 on=node1 addr=10.0.0.3 grace=30s stamp=10")
		c.end()
	})
}

func TestWithoutRightsInEveryNamespaceNothingIsWatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := threeServices(t)
		c.refuse("list pods", forbidden("pods"))
		c.start()
		err := <-c.result
		for _, what := range []string{"web, inner of namespace shop", "web of namespace bank"} {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%v, want a word of %q", err, what)
			}
		}
		if advice := hint.Of(err); !strings.Contains(advice, "kubectl auth can-i list pods -n shop") {
			t.Errorf("hint %q", advice)
		}
		c.stop()
	})
}

// A Role with resourceNames allows to list and watch a Service by its name, and no others.
func TestServicesAreWatchedByNameWhereTheRightsAllowNoMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := threeServices(t)
		c.byName = true
		c.start()
		on := slices.DeleteFunc(c.happened(), func(line string) bool {
			return !strings.Contains(line, "watch-lane [Service]") && !strings.Contains(line, "watch-lane [Pod]")
		})
		slices.Sort(on)
		want := []string{
			"0s watch-lane [Pod] >on of=bank/web", "0s watch-lane [Pod] >on" + ofShop,
			"0s watch-lane [Service] >on", "0s watch-lane [Service] >on of=bank/web", "0s watch-lane [Service] >on of=shop/inner",
		}
		if !slices.Equal(on, want) {
			t.Errorf("lanes: %q, want %q", on, want)
		}
		time.Sleep(time.Second)
		_, err := c.client.CoreV1().Services("shop").Update(t.Context(), with(service(), func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} }), metav1.UpdateOptions{})
		c.check(err)
		got := c.happened()
		for _, line := range []string{
			"1s service web app=web>app=other (selector: app=web → app=other)",
			"1s pod-gone web-1 on=node1 addr=10.0.0.1 (no longer selected)",
			"1s pod-seen web-9 on=node1 addr=10.0.0.9 >Running stamp=01 (listed)",
		} {
			if !slices.Contains(got, line) {
				t.Errorf("%q is missing in %q", line, got)
			}
		}
		if slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "web-3") }) {
			t.Errorf("Pod 3 is still selected by inner: %q", got)
		}
		c.end()
	})
}

// The API server tells of a Pod that a selector lets go only where it was asked for that selector.
func TestPodThatLosesItsLabelIsLetGoInASharedWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := threeServices(t)
		c.start()
		c.happened()
		time.Sleep(time.Second)
		c.putPod(with(pod(1), func(p *corev1.Pod) { p.Labels = nil }))
		c.expect("1s pod-gone web-1 on=node1 addr=10.0.0.1 (no longer selected)")
		c.putPod(with(pod(1), deleted))
		c.expect("1s pod-seen web-1 on=node1 addr=10.0.0.1 >Running stamp=01 (watched)",
			"1s pod-scheduled web-1 on=node1 addr=10.0.0.1 >node1 stamp=02",
			"1s pod-deleted web-1 on=node1 addr=10.0.0.1 grace=30s stamp=10",
			"1s pod-ready web-1 on=node1 addr=10.0.0.1 >true stamp=04 by=kubelet/node1",
			"1s pod-container web-1 on=node1 addr=10.0.0.1 >running stamp=03 by=kubelet/node1 (app)")
		c.end()
	})
}

// One watch of each kind is enough for Services of all namespaces, and what is another namespace's is not taken for
// theirs.
func TestAllNamespacesAreOneWatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := threeServices(t)
		c.cluster = true
		_, err := c.client.CoreV1().Pods("blog").Create(t.Context(), with(pod(5), func(p *corev1.Pod) { p.Namespace = "blog" }), metav1.CreateOptions{})
		c.check(err)
		c.start()
		seen := slices.DeleteFunc(c.happened(), func(line string) bool {
			return !strings.Contains(line, "pod-seen") && !strings.Contains(line, "endpoint ")
		})
		var want []string
		for _, n := range []int{1, 3, 4} {
			who := fmt.Sprintf("web-%d on=node1 addr=10.0.0.%d", n, n)
			want = append(want, "0s endpoint "+who+" >ready port=8080", "0s pod-seen "+who+" >Running stamp=01 (listed)")
		}
		want = append(want, "0s endpoint web-3 on=node1 addr=10.0.0.3 >ready port=8080") // of inner too
		slices.Sort(seen)
		slices.Sort(want)
		if !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
		for _, resource := range []string{"pods", "services", "endpointslices", "events", "nodes", "deployments", "poddisruptionbudgets"} {
			if got := c.count("watch " + resource); got != 1 {
				t.Errorf("%d watches of %s, want 1", got, resource)
			}
		}
		time.Sleep(time.Second)
		c.putPod(with(bankPod(), deleted))
		c.expect("1s pod-deleted web-4 on=node1 addr=10.0.0.4 grace=30s stamp=10")
		c.end()
	})
}
