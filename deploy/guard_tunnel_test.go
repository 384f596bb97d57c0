package deploy

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/internal/hint"
	"lapse/internal/kube/kubetest"
)

// Of the Pods of a guard the one that speaks is asked, and of those that stand by the one that has measured for longest.
func TestTheGuardThatSpeaksIsAsked(t *testing.T) {
	pod := func(name string, age time.Duration) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "lapse", Labels: guardLabels(), CreationTimestamp: metav1.NewTime(time.Now().Add(-age)),
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
				{Name: ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			}},
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

// Who may look into one namespace alone finds the guard there.
func TestAGuardIsFoundWhereOneMayLook(t *testing.T) {
	running := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "lapse-guard-1", Namespace: "shop", Labels: guardLabels()},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
	client := fake.NewSimpleClientset(running)
	client.PrependReactor("list", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		return a.GetNamespace() != "shop", nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("you may not"))
	})
	cluster := Cluster{Client: kubetest.Client(client)}
	if got, err := guardPod(t.Context(), cluster, []string{"lapse", "shop"}); err != nil || got.Name != running.Name {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := guardPod(t.Context(), cluster, []string{"lapse", "bank"}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "in namespace lapse") {
		t.Error(err)
	}
}

// Whoever asks a guard of which no Pod runs is told why not.
func TestWhyNoGuardRunsIsTold(t *testing.T) {
	pod := func(status corev1.PodStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lapse-guard-1", Namespace: "lapse", Labels: guardLabels()}, Status: status}
	}
	crashed := corev1.ContainerStatus{
		Name: ContainerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s restarting"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 2, Message: `lapse: /etc/lapse/flags: "--rat=5" is no flag of a guard with a value`,
		}},
	}
	noSecret := corev1.ContainerStatus{Name: ContainerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `secret "token" not found`}}}
	noClaim := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: `persistentvolumeclaim "runs" not found`}
	deployment := func(conditions ...appsv1.DeploymentCondition) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: GuardName, Namespace: "lapse"}, Status: appsv1.DeploymentStatus{Conditions: conditions}}
	}
	const see = "see `kubectl -n lapse describe pod lapse-guard-1`"
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		want    string
		hint    string
	}{
		{"there is none", nil, "no guard runs in namespace shop or lapse", "`lapse gen guard --help`"},
		{"a wrong flag", []runtime.Object{pod(corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{crashed}})}, `"--rat=5" is no flag of a guard`, see},
		{"a Secret that is not there", []runtime.Object{pod(corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{noSecret}})}, `secret "token" not found`, see},
		{"a claim that does not exist", []runtime.Object{pod(corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{noClaim}})}, `persistentvolumeclaim "runs" not found`, see},
		{"it is about to start", []runtime.Object{pod(corev1.PodStatus{Phase: corev1.PodPending})}, "does not run yet: it waits for Pod lapse-guard-1 to be scheduled", ""},
		{"its Pods are refused", []runtime.Object{deployment(appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"})}, "has no Pods: exceeded quota", ""},
		{"it was just installed", []runtime.Object{deployment()}, "has no Pods yet", ""},
	} {
		cluster := Cluster{Client: kubetest.Client(fake.NewSimpleClientset(test.objects...))}
		_, err := guardPod(t.Context(), cluster, []string{"shop", "lapse"})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(hint.Of(err), test.hint) {
			t.Errorf("%s: %v; hint: %s\nwant %s", test.name, err, hint.Of(err), test.want)
		}
	}
}
