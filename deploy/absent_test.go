package deploy

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
)

// What keeps a node's prober from running is said with what to do about it.
func TestWaitingProberSaysWhatKeepsIt(t *testing.T) {
	unschedulable := corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 1 Insufficient cpu",
	}}}
	waiting := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: ContainerName, Image: "lapse:no", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}}}
	}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"full":     {unschedulable, "Pod p does not start: Unschedulable: 0/3 nodes are available: 1 Insufficient cpu; --cpu lets it ask for less, and --from can leave this node out"},
		"no image": {waiting("ErrImagePull", "not found"), `Pod p does not start: ErrImagePull: image "lapse:no": not found; ` + pushHint},
		"starting": {waiting("ContainerCreating", ""), "waits for Pod p on node1 to start (ContainerCreating)"},
		"rejected": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "not enough"}, "Pod p does not start: OutOfcpu: OutOfcpu not enough"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "node1"}, Status: test.status}
		if got := Waiting(pod); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Why the DaemonSet's controller creates no Pod is read from its Events. Those of an earlier DaemonSet of this name
// do not count.
func TestUncreatedProbersSayWhy(t *testing.T) {
	event := func(of types.UID, message string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "shop"}, Reason: "FailedCreate", Message: message,
			InvolvedObject: corev1.ObjectReference{Kind: "DaemonSet", Name: "lapse-probers", UID: of},
		}
	}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "lapse-probers", Namespace: "shop", UID: "set-1"}}
	const quota = `Error creating: pods "lapse-probers-" is forbidden: exceeded quota: small, requested: cpu=300m, used: cpu=900m, limited: cpu=1`
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"quota": {[]runtime.Object{set, event("set-1", quota)}, []string{"its Pod cannot be created: " + quota, "the quota small leaves no room"}},
		"policy": {[]runtime.Object{set, event("set-1", `Error creating: admission webhook "no.example" denied the request: no DaemonSets`)},
			[]string{"denied the request: no DaemonSets", "an admission policy of the cluster refuses"}},
		"an earlier DaemonSet's quota": {[]runtime.Object{set, event("set-0", quota)}, nil},
		"no DaemonSet":                 {nil, []string{"there is no DaemonSet lapse-probers"}},
	} {
		cluster, _ := fakeCluster(test.objects...)
		got := Uncreated(t.Context(), cluster.Client, "shop", "lapse", true)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q does not say %q", name, got, want)
			}
		}
		if test.want == nil && got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A cluster whose admission refuses DaemonSets is said to, whatever the status code, and nothing is left.
func TestARefusedDaemonSetIsSaidToBe(t *testing.T) {
	for _, refusal := range []error{
		&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: `admission webhook "no.example" denied the request: no DaemonSets`}},
		apierrors.NewForbidden(appsv1.Resource("daemonsets"), "lapse-x7k2p-probers", errors.New("ValidatingAdmissionPolicy 'no-sets' with binding 'all' denied request: no DaemonSets")),
	} {
		cluster, client := fakeCluster()
		client.PrependReactor("create", "daemonsets", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
		config := exampleConfig()
		config.Probers = []string{"node1"}
		_, err := Create(t.Context(), cluster, config)
		if err == nil || !strings.Contains(err.Error(), "create DaemonSet lapse-x7k2p-probers in namespace shop") || !Refused(err) {
			t.Errorf("error %v", err)
		}
		wantHint(t, err, "leave out --from")
		if left := leftovers(t, cluster); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}
