package workstation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/deploy"
	"lapse/internal/kube/kubetest"
	"lapse/internal/layer"
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

// The oldest Pod goes, one at a time, and only when two are ready. When that was asked for is recorded of each.
func TestPodsAreChangedOneByOne(t *testing.T) {
	layer.Real(t)
	clientset := fake.NewClientset(canaryPod(1, true), canaryPod(2, true))
	next, looks := 3, 0
	clientset.PrependReactor("delete", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		looks = 0
		return false, nil, clientset.Tracker().Add(canaryPod(next, false))
	})
	clientset.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		if looks++; looks == 3 && next > 2 { // it takes a while to be ready
			if clientset.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), canaryPod(next, true), "shop") == nil {
				next++
			}
		}
		return false, nil, nil
	})
	var asked []string
	exited := make(chan int, 1)
	c := &podChanger{
		client: kubetest.Client(clientset), namespace: "shop", selector: deploy.CanarySelector("lapse-x"), changes: 3, clock: timeline.StartClock(),
		event: func(timeline.Event) {}, say: func(string) {}, ctx: t.Context(), cancel: func() {},
		asked: func(pod *corev1.Pod, from, to time.Duration) {
			if from > to || from <= 0 {
				t.Errorf("%s: asked between %v and %v", pod.Name, from, to)
			}
			asked = append(asked, pod.Name)
		},
	}
	if err := c.Start(func(code int) { exited <- code }); err != nil {
		t.Fatal(err)
	}
	if code := <-exited; code != 0 || !slices.Equal(asked, []string{"canary-1", "canary-2", "canary-3"}) {
		t.Errorf("exit code %d, deleted %q", code, asked)
	}
}
