package snapshot

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/timeline"
)

func TestATemplateIsWhatCausesNeedOfAPod(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "web-1"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(20)), RestartPolicy: corev1.RestartPolicyAlways,
			InitContainers: []corev1.Container{{Name: "migrate"}, {Name: "mesh", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
			Containers: []corev1.Container{{
				Name:           "app",
				Lifecycle:      &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", "sleep 5"}}}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 2, FailureThreshold: 3, TimeoutSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")}}},
			}},
		},
	}
	got := Template(p)
	want := timeline.PodTemplate{ID: got.ID, Grace: 20 * time.Second, RestartPolicy: "Always", Containers: []timeline.Container{
		{Name: "mesh", Sidecar: true},
		{Name: "app", PreStop: &timeline.Hook{Kind: "exec", Sleep: 5 * time.Second}, Readiness: &timeline.Probe{Kind: "httpGet", Path: "/ready", Port: "http", Period: 2 * time.Second, Timeout: time.Second, Threshold: 3}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
	owned, longer := p.DeepCopy(), p.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-abc", UID: "web-abc", Controller: new(true)}}
	if other := Template(owned); other.ID == got.ID {
		t.Error("two controllers have one template")
	}
	longer.Spec.TerminationGracePeriodSeconds = new(int64(21))
	if other := Template(longer); other.ID == got.ID {
		t.Error("another grace period makes no other template")
	}
}

func TestWhetherAHookOnlySleeps(t *testing.T) {
	for text, want := range map[string]timeline.Hook{
		"/bin/sleep 0.5": {Kind: "exec", Sleep: 500 * time.Millisecond},
		"sleep":          {Kind: "exec", Command: "sleep"},
		"nginx -s quit":  {Kind: "exec", Command: "nginx -s quit"},
		"echo bye":       {Kind: "exec", Command: "echo bye"},
	} {
		if got := hookOf(&corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: strings.Fields(text)}}); *got != want {
			t.Errorf("%q is %+v, want %+v", text, *got, want)
		}
	}
	for command, want := range map[string]timeline.Hook{
		"/bin/sh -c":       {Kind: "exec", Command: "sleep 5; nginx -s quit"},
		"/bin/nginx -s":    {Kind: "exec", Command: "/bin/nginx -s 'sleep 5; nginx -s quit'"},
		"/bin/sh -c trap;": {Kind: "exec", Command: "/bin/sh -c 'trap;' 'sleep 5; nginx -s quit'"},
	} {
		words := append(strings.Fields(command), "sleep 5; nginx -s quit")
		if got := hookOf(&corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: words}}); *got != want {
			t.Errorf("%q is %+v, want %+v", words, *got, want)
		}
	}
}

// A change is recorded with the field manager that made it, as far as managedFields tell one.
func TestWhoChangedAWorkloadIsRecorded(t *testing.T) {
	second := func(n int) *metav1.Time { return &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC)} }
	entry := func(manager, subresource, fields string, n int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields), Time: second(n)}
	}
	const replicas, template, status = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}}}`, `{"f:status":{"f:replicas":{}}}`
	for name, tt := range map[string]struct {
		fields     []metav1.ManagedFieldsEntry
		actor      string
		autoscaled bool
	}{
		"none":                   {nil, "", false},
		"the latest":             {[]metav1.ManagedFieldsEntry{entry("helm", "", template, 1), entry("kubectl-client-side-apply", "", replicas, 5), entry("kube-controller-manager", "status", status, 9)}, "kubectl-client-side-apply", false},
		"an autoscaler":          {[]metav1.ManagedFieldsEntry{entry("helm", "", template, 1), entry("kube-controller-manager", "scale", replicas, 5)}, "kube-controller-manager", true},
		"kubectl scale":          {[]metav1.ManagedFieldsEntry{entry("helm", "", template, 1), entry("kubectl", "scale", replicas, 5)}, "kubectl", false},
		"two in the same second": {[]metav1.ManagedFieldsEntry{entry("helm", "", template, 5), entry("kubectl", "", replicas, 5)}, "", false},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: tt.fields}}
		if actor := Actor(d); actor != tt.actor || Autoscaled(d) != tt.autoscaled {
			t.Errorf("%s: %q, autoscaled %v, want %q, %v", name, actor, Autoscaled(d), tt.actor, tt.autoscaled)
		}
	}
}

// What a controller leaves as it is belongs to its spec: a StatefulSet's first Pods, or all Pods of a paused Deployment.
func TestWhatARolloutLeavesAsItIsIsRecorded(t *testing.T) {
	update := &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
	_, set := StatefulSet(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: update},
	}})
	_, deployment := Deployment(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Paused: true}})
	if set.Partition != 2 || !deployment.Paused {
		t.Errorf("partition %d, paused %v", set.Partition, deployment.Paused)
	}
}
