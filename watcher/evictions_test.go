package watcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/timeline"
)

// requestFor is an EvictionRequest for a Pod, as Kubernetes 1.37 writes it.
func requestFor(t *testing.T, name, podName string) *lifecyclev1alpha1.EvictionRequest {
	t.Helper()
	const written = `{
		"kind": "EvictionRequest", "apiVersion": "lifecycle.k8s.io/v1alpha1",
		"metadata": {"name": "NAME", "namespace": "shop", "uid": "NAME", "generation": 1, "creationTimestamp": "2000-01-01T00:00:05Z"},
		"spec": {"target": {"pod": {"name": "POD", "uid": "POD"}}, "requester": "example.com/upgrade", "intent": "Eviction"},
		"status": {}
	}`
	r := new(lifecyclev1alpha1.EvictionRequest)
	text := strings.NewReplacer("NAME", name, "POD", podName).Replace(written)
	decoder := json.NewDecoder(strings.NewReader(text))
	if decoder.DisallowUnknownFields(); decoder.Decode(r) != nil {
		t.Fatalf("no EvictionRequest: %s", text)
	}
	return r
}

// evictionAPI is what Kubernetes 1.37 serves with the feature gate EvictionRequestAPI.
var evictionAPI = &metav1.APIResourceList{
	GroupVersion: "lifecycle.k8s.io/v1alpha1",
	APIResources: []metav1.APIResource{{Name: "evictions"}, {Name: "evictionrequests"}},
}

// asksForKinds is the call that asks the API server for the kinds of a group.
const asksForKinds = "get resource"

var noEvictionAPI = apierrors.NewNotFound(lifecyclev1alpha1.Resource("evictionrequests"), "")

func (c *cluster) putRequest(r *lifecyclev1alpha1.EvictionRequest) {
	c.t.Helper()
	all := c.client.LifecycleV1alpha1().EvictionRequests("shop")
	_, err := all.Update(c.t.Context(), r, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = all.Create(c.t.Context(), r, metav1.CreateOptions{})
	}
	c.check(err)
}

func withdrawn(r *lifecyclev1alpha1.EvictionRequest) {
	r.Spec.Intent = lifecyclev1alpha1.EvictionRequestIntentWithdrawn
}

func TestEvictionRequestsForOurPodsAreRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1), pod(2), nobodysPod(), requestFor(t, "before", "web-1"))
		c.allow(asksForKinds)
		c.start()
		lane, before := 0, 0
		for _, line := range c.happened() {
			switch {
			case line == "0s watch-lane [EvictionRequest] >on":
				lane++
			case line == "0s eviction-request web-1 >Eviction stamp=05 for=example.com/upgrade (before)":
				before++
			case strings.Contains(line, "viction"):
				t.Errorf("unexpected: %s", line)
			}
		}
		if lane != 1 || before != 1 {
			t.Errorf("%d lanes, %d requests of the first list", lane, before)
		}

		time.Sleep(time.Second)
		c.putRequest(requestFor(t, "ours", "web-2"))
		c.putRequest(requestFor(t, "theirs", "web-9"))
		c.expect("1s eviction-request web-2 absent>Eviction stamp=05 for=example.com/upgrade (ours)")
		c.putRequest(with(requestFor(t, "ours", "web-2"), func(r *lifecyclev1alpha1.EvictionRequest) {
			r.Status.Conditions = []metav1.Condition{{Type: "TargetEvicted", Status: metav1.ConditionFalse}}
		}))
		c.expect()
		c.putRequest(with(requestFor(t, "ours", "web-2"), withdrawn))
		c.expect("1s eviction-request web-2 Eviction>Withdrawn for=example.com/upgrade (ours)")
		c.putRequest(requestFor(t, "ours", "web-2"))
		c.expect("1s eviction-request web-2 Withdrawn>Eviction for=example.com/upgrade (ours)")
		for _, name := range []string{"ours", "theirs"} {
			c.check(c.client.LifecycleV1alpha1().EvictionRequests("shop").Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		c.expect("1s eviction-request web-2 Eviction>absent for=example.com/upgrade (ours)")

		// The watches are independent: a request may come before its Pod.
		c.putRequest(requestFor(t, "early", "web-3"))
		c.expect()
		c.putPod(pod(3))
		c.expect("1s pod-seen web-3 on=node1 addr=10.0.0.3 >Running stamp=01 (watched)",
			"1s pod-scheduled web-3 on=node1 addr=10.0.0.3 >node1 stamp=02",
			"1s pod-ready web-3 on=node1 addr=10.0.0.3 >true stamp=04 by=kubelet/node1",
			"1s pod-container web-3 on=node1 addr=10.0.0.3 >running stamp=03 by=kubelet/node1 (app)",
			"1s eviction-request web-3 absent>Eviction stamp=05 for=example.com/upgrade (early)")

		// What came in a gap did so no earlier than the gap began.
		expired := apierrors.NewResourceExpired("too old").ErrStatus
		time.Sleep(time.Second)
		c.refuse("list evictionrequests", errors.New("connection refused"))
		c.lastWatch("evictionrequests").Error(&expired)
		c.putRequest(requestFor(t, "hidden", "web-2"))
		c.allow("list evictionrequests")
		time.Sleep(time.Second)
		if got := strings.Join(c.happened(), "\n"); !strings.Contains(got, "watch-gap since=1s [EvictionRequest]") ||
			!strings.Contains(got, "eviction-request web-2 absent>Eviction") {
			t.Errorf("after a gap: %s", got)
		}
		c.end()
	})
}

// Before Kubernetes 1.37, and where nobody has enabled them, there are none: that is no gap, and nobody's mistake.
func TestWhereEvictionRequestsAreNotServedNothingIsSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCluster(t, service())
		c.logger = slog.New(slog.NewTextHandler(&log, nil))
		c.refuse("list evictionrequests", forbidden("evictionrequests")) // as of every kind that no rule names
		c.start()
		c.expect(lanesOn...)
		time.Sleep(servedAgain - time.Second)
		c.expect()
		if n := c.count(asksForKinds); n != 1 || c.count("list evictionrequests") > 0 || log.Len() > 0 {
			t.Errorf("asked %d times; log: %s", n, &log)
		}

		c.allow("list evictionrequests")
		c.allow(asksForKinds) // the control plane was upgraded
		time.Sleep(time.Second)
		c.expect("10m0s watch-lane [EvictionRequest] >on")

		c.refuse(asksForKinds, noEvictionAPI) // and set back
		c.lastWatch("evictionrequests").Error(&noEvictionAPI.ErrStatus)
		time.Sleep(time.Second)
		c.expect("10m0s watch-lane [EvictionRequest] >off (the API server does not serve it any more)")
		time.Sleep(servedAgain)
		c.expect()
		if n := c.count(asksForKinds); n != 4 {
			t.Errorf("asked %d times", n)
		}
		c.allow(asksForKinds)
		time.Sleep(servedAgain)
		c.expect("30m0s watch-lane [EvictionRequest] >on")
		c.end()
	})
}

func TestWithoutTheRightToEvictionRequestsTheirLaneIsOff(t *testing.T) {
	for _, mayAsk := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			c := newCluster(t, service())
			c.allow(asksForKinds)
			if !mayAsk {
				c.refuse(asksForKinds, forbidden("/apis"))
			}
			c.refuse("list evictionrequests", forbidden("evictionrequests"))
			c.start()
			c.expect(append(lanesOn, "0s watch-lane [EvictionRequest] >off (no right to list evictionrequests.lifecycle.k8s.io: "+
				"evictionrequests is forbidden: no role)")...)
			c.end()
		})
	}
}

// A target may be something else than a Pod one day.
func TestAnEvictionRequestForNoPodIsIgnored(t *testing.T) {
	r := with(requestFor(t, "group", "web-1"), func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Target.Pod = nil })
	checkLines(t, diffEvictionRequest(nil, r, watched))
	e := diffEvictionRequest(nil, requestFor(t, "one", "web-1"), relisted)[0]
	if e.Actor != "example.com/upgrade" || types.UID(e.Object.UID) != "web-1" || e.From != timeline.EvictionNotRequested {
		t.Errorf("%+v", e)
	}
}
