package workstation

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/deploy"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

// canaryPod returns the nth Pod of the Service of `lapse routes`.
func canaryPod(n int, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("canary-%d", n), Namespace: "shop", UID: types.UID(fmt.Sprint(n)), CreationTimestamp: metav1.Unix(int64(1000+n), 0),
			Labels: map[string]string{deploy.RunLabel: "lapse-x", deploy.PartLabel: "canary"},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

// podsInTurn returns the API server of the run's own Service: each Pod that is deleted is replaced, by one that takes a
// while to be ready.
func podsInTurn(t *testing.T, pods int) *fake.Clientset {
	t.Helper()
	clientset := fake.NewClientset()
	next := 1
	add := func(ready bool) {
		if err := clientset.Tracker().Add(canaryPod(next, ready)); err != nil {
			t.Error(err)
		}
		next++
	}
	for range pods {
		add(true)
	}
	clientset.PrependReactor("delete", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		replacement := next
		add(false)
		time.AfterFunc(time.Second, func() {
			pods := corev1.SchemeGroupVersion.WithResource("pods")
			if err := clientset.Tracker().Update(pods, canaryPod(replacement, true), "shop"); err != nil {
				t.Error(err)
			}
		})
		return false, nil, nil
	})
	return clientset
}

// The oldest Pods go, only when all are ready: one, and in every second change several, of which all but the first
// shortly after it, when a proxy has just written its rules. When each was asked for is recorded.
func TestPodsAreChangedAloneAndTogether(t *testing.T) {
	for atOnce, want := range map[int]string{
		1: "canary-1 0s, canary-2 4s, canary-3 8s, canary-4 12s",
		3: "canary-1 0s, canary-2 4s, canary-3 4.2s, canary-4 4.2s, canary-5 8.2s, canary-6 12.2s, canary-7 12.4s, canary-8 12.4s",
	} {
		synctest.Test(t, func(t *testing.T) {
			o := spec.Options{Changes: 4, AtOnce: atOnce}
			var asked []string
			exited := make(chan int, 1)
			c := &podChanger{
				client: kubetest.Client(podsInTurn(t, o.CanaryPods())), namespace: "shop", selector: deploy.CanarySelector("lapse-x"),
				changes: o.Changes, atOnce: o.AtOnce, pods: o.CanaryPods(), between: betweenChanges + o.Cluster.SyncPeriod(), clock: timeline.StartClock(),
				event: func(timeline.Event) {}, say: func(string) {}, ctx: t.Context(), cancel: func() {},
				asked: func(pod *corev1.Pod, from, to time.Duration) {
					if from > to {
						t.Errorf("%s: asked between %v and %v", pod.Name, from, to)
					}
					asked = append(asked, pod.Name+" "+from.String())
				},
			}
			if err := c.Start(func(code int) { exited <- code }); err != nil {
				t.Fatal(err)
			}
			if code := <-exited; code != 0 || strings.Join(asked, ", ") != want {
				t.Errorf("%d at once: exit code %d, deleted %q, want %q", atOnce, code, asked, want)
			}
		})
	}
}
