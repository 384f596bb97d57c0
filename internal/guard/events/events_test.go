package events

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/internal/kube/kubetest"
	"lapse/timeline"
)

var at = time.Date(2026, 11, 26, 10, 15, 0, 1000, time.UTC)

// shop is a cluster with a Service and a workload of each kind, all called web.
func shop() *fake.Clientset {
	meta := func(uid string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-of-" + types.UID(uid)}
	}
	return fake.NewClientset(&corev1.Service{ObjectMeta: meta("Service")}, &appsv1.Deployment{ObjectMeta: meta("Deployment")},
		&appsv1.StatefulSet{ObjectMeta: meta("StatefulSet")}, &appsv1.DaemonSet{ObjectMeta: meta("DaemonSet")})
}

// written returns the Events of the namespace shop.
func written(t *testing.T, c *fake.Clientset) []corev1.Event {
	t.Helper()
	list, err := c.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].TypeMeta, list.Items[i].ManagedFields = metav1.TypeMeta{}, nil // of the fake
	}
	return list.Items
}

// `kubectl describe` finds an Event by the kind, the namespace, the name and the UID of its object. The API demands the
// rest.
func TestDescribeFindsAnEvent(t *testing.T) {
	for _, kind := range []string{"Service", "Deployment", "StatefulSet", "DaemonSet"} {
		c := shop()
		on := timeline.Object{Kind: kind, Namespace: "shop", Name: "web"}
		e := Event{On: on, Related: timeline.Object{Kind: "Node", Name: "node1"}, Warning: true, Reason: "RequestsDropped", Text: "3 of 900 failed", Run: "lapse-1", Began: at.Add(-time.Minute), Ended: at, By: "lapse"}
		for range 2 { // as if the first answer had been lost
			if _, err := Write(t.Context(), kubetest.Client(c), at, e); err != nil {
				t.Fatal(err)
			}
		}
		version := "apps/v1"
		if kind == "Service" {
			version = "v1"
		}
		want := []corev1.Event{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "lapse-1.uid-of-" + kind, Annotations: map[string]string{
				"lapse/began": "2026-11-26T10:14:00.000001Z", "lapse/ended": "2026-11-26T10:15:00.000001Z", "lapse/guard-namespace": "lapse"}},
			EventTime:      metav1.NewMicroTime(at),
			InvolvedObject: corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: "shop", Name: "web", UID: "uid-of-" + types.UID(kind)},
			Related:        &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node1"},
			Type:           "Warning", Reason: "RequestsDropped", Message: "3 of 900 failed; run lapse-1", Action: "Measure",
			ReportingController: "lapse/guard", ReportingInstance: instance(),
		}}
		if diff := cmp.Diff(want, written(t, c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// A guard that led wrote its Event, and ended before the other one had judged the same disruption: that writes no other
// one, unless it found worse. A guard in another namespace writes its own, and both know of each other.
func TestADisruptionHasOneEvent(t *testing.T) {
	c := shop()
	for i, test := range []struct {
		what         string
		began, ended time.Duration
		warning      bool
		reason       string
		by           string
		events       int
		others       string
	}{
		{"the first", 0, 60, false, "any", "lapse", 1, ""},
		{"the same by the other Pod", 2, 61, false, "any", "lapse", 1, ""},
		{"the same, and worse", 2, 61, true, "any", "lapse", 2, ""},
		{"the same, and no better", 1, 60, false, "any", "lapse", 2, ""},
		{"the next, after the clock was set", 59, 120, false, "any", "lapse", 3, ""},
		{"by another guard", 0, 120, false, "any", "shop", 4, "lapse"},
		{"the one after", 121, 130, true, NotMeasured, "lapse", 5, "shop"},
		{"the same, not measured either", 121, 130, true, NotMeasured, "lapse", 5, "shop"},
		{"the same, which was measured", 121, 130, true, "any", "lapse", 6, "shop"},
	} {
		e := Event{On: timeline.Object{Kind: "Service", Namespace: "shop", Name: "web"}, Reason: test.reason, Warning: test.warning, By: test.by,
			Run: fmt.Sprint("run-", i), Began: at.Add(test.began * time.Second), Ended: at.Add(test.ended * time.Second)}
		others, err := Write(t.Context(), kubetest.Client(c), at, e, Event{On: timeline.Object{Kind: "Service", Namespace: "shop", Name: "gone"}})
		if n := len(written(t, c)); err != nil || n != test.events || strings.Join(others, " ") != test.others {
			t.Errorf("%s: %d Events, of others %q, %v", test.what, n, others, err)
		}
	}
	c.PrependReactor("list", "events", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil)
	})
	e := Event{On: timeline.Object{Kind: "Service", Namespace: "shop", Name: "web"}, Run: "unseen", Began: at, Ended: at.Add(time.Minute), By: "lapse"}
	if _, err := Write(t.Context(), kubetest.Client(c), at, e); err != nil {
		t.Errorf("who may not list Events writes none: %v", err)
	}
	if _, err := c.CoreV1().Events("shop").Get(t.Context(), "unseen.uid-of-Service", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// Two Services may select the Pods of one workload. That has an Event of each, and each may be measured by another guard.
func TestAWorkloadHasAnEventOfEachService(t *testing.T) {
	c := shop()
	for i, test := range []struct {
		service, by string
		warning     bool
		events      int
		others      string
	}{
		{"web", "lapse", true, 1, ""},
		{"web-admin", "lapse", true, 2, ""},
		{"web-admin", "lapse", true, 2, ""},
		{"web-metrics", "lapse", false, 3, ""},
		{"web-api", "shop", true, 4, ""},
		{"web", "shop", true, 5, "lapse"},
	} {
		e := Event{On: timeline.Object{Kind: "Deployment", Namespace: "shop", Name: "web"}, Related: timeline.Object{Kind: "Service", Namespace: "shop", Name: test.service},
			Warning: test.warning, Run: fmt.Sprint("run-", i), By: test.by, Began: at, Ended: at.Add(time.Minute)}
		others, err := Write(t.Context(), kubetest.Client(c), at, e)
		if n := len(written(t, c)); err != nil || n != test.events || strings.Join(others, " ") != test.others {
			t.Errorf("%d, of %s: %d Events, of others %q, %v", i, test.service, n, others, err)
		}
	}
}

// An object that is gone gets no Event, and what cannot be written keeps no other from being so.
func TestWhatCannotBeWrittenKeepsNoOther(t *testing.T) {
	c := shop()
	c.PrependReactor("get", "deployments", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", nil)
	})
	on := func(kind, name string) Event {
		return Event{On: timeline.Object{Kind: kind, Namespace: "shop", Name: name}, Reason: "NoRequestDropped", Run: "lapse-1"}
	}
	_, err := Write(t.Context(), kubetest.Client(c), at, on("Service", "gone"), on("Deployment", "web"), on("Job", "web"), on("Service", "web"))
	all := written(t, c)
	if len(all) != 1 || all[0].InvolvedObject.Kind != "Service" || all[0].Type != "Normal" || all[0].Related != nil {
		t.Errorf("%+v", all)
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "an Event on Deployment shop/web: ") {
		t.Errorf("%v", err)
	}
	c.PrependReactor("create", "events", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil)
	})
	next := on("Service", "web")
	next.Began, next.Ended = at, at.Add(time.Minute)
	if _, err := Write(t.Context(), kubetest.Client(c), at, next); !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

// The API takes 1024 bytes. What is beyond is cut between two characters, and the run is still named.
func TestALongTextIsCut(t *testing.T) {
	for length := 1000; length < 1030; length++ {
		e := Event{Text: strings.Repeat("≥", length/3) + strings.Repeat(".", length%3), Run: "lapse-20261126-101500-ab3d"}
		m := e.message()
		if len(m) > 1024 || !utf8.ValidString(m) || !strings.HasSuffix(m, "; run lapse-20261126-101500-ab3d") {
			t.Errorf("%d bytes: %q", len(m), m)
		}
		if whole := len(e.Text)+len("; run ")+len(e.Run) <= 1024; whole != !strings.Contains(m, "…") || !whole && len(m) < 1020 {
			t.Errorf("%d bytes of %d: %q", len(m), len(e.Text), m)
		}
	}
}
