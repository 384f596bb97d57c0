package deploy

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/internal/kube/kubetest"
)

// Of the Pods of a guard the one that speaks is asked, and of those that stand by the one that has measured for longest.
func TestTheGuardThatSpeaksIsAsked(t *testing.T) {
	pod := func(name string, age time.Duration) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "lapse", Labels: guardLabels(), CreationTimestamp: metav1.NewTime(time.Now().Add(-age)),
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: GuardName, Namespace: "lapse"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
		}
	}
	young, old := pod("young", time.Minute), pod("old", time.Hour)
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"one leads", []runtime.Object{young, old, lease("young")}, "young"},
		{"the one that led is gone", []runtime.Object{young, old, lease("gone")}, "old"},
		{"none has led", []runtime.Object{young, old, lease("")}, "old"},
		{"there is no Lease", []runtime.Object{young, old}, "old"},
	} {
		cluster := Cluster{Client: kubetest.Client(fake.NewSimpleClientset(test.objects...))}
		got, err := guardPod(t.Context(), cluster, []string{"shop", "lapse"})
		if err != nil || got.Name != test.want {
			t.Errorf("%s: %v, %v, want %s", test.name, got, err, test.want)
		}
	}
}
