package deploy

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A fleetGuard is a guard that measures from every node.
type fleetGuard struct {
	Guard
	set *appsv1.DaemonSet
}

func guardFleet() fleetGuard {
	g := Guard{Namespace: "lapse", Image: "lapse:latest", ProberLabels: labels.Everything()}
	for _, o := range g.Objects() {
		if set, ok := o.(*appsv1.DaemonSet); ok {
			return fleetGuard{g, set}
		}
	}
	panic("no DaemonSet")
}

// A guard's prober has no rights and no token, stays where it is, and gets of the Secret its own keys alone: not that of
// the authority, which would make it everybody's coordinator. It does not start without them.
func TestAGuardsProberHasNoRightsAndItsOwnKeysAlone(t *testing.T) {
	g := guardFleet()
	spec := g.set.Spec.Template.Spec
	if *spec.AutomountServiceAccountToken || spec.ServiceAccountName != "" {
		t.Errorf("it has a token: %+v", spec)
	}
	if len(spec.Tolerations) != 1 || spec.Tolerations[0].Operator != corev1.TolerationOpExists || spec.Tolerations[0].Key != "" {
		t.Errorf("it does not tolerate every taint: %+v", spec.Tolerations)
	}
	want := []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: "lapse-guard-probers",
		Items:      []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}, {Key: "prober.crt", Path: "prober.crt"}, {Key: "prober.key", Path: "prober.key"}},
	}}}}
	if diff := cmp.Diff(want, spec.Volumes); diff != "" {
		t.Errorf("volumes: %s", diff)
	}
	container := spec.Containers[0]
	dir := ""
	for _, variable := range container.Env {
		if from := variable.ValueFrom; from != nil && from.FieldRef == nil {
			t.Errorf("%s comes from %+v", variable.Name, from)
		}
		if variable.Name == EnvKeyDir {
			dir = variable.Value
		}
	}
	if len(container.VolumeMounts) != 1 || container.VolumeMounts[0].MountPath != dir || dir == "" || len(container.EnvFrom) > 0 {
		t.Errorf("keys are at %+v, and it reads %q", container.VolumeMounts, dir)
	}
	if cpu := container.Resources.Requests.Cpu(); cpu.MilliValue() > 10 || container.Resources.Limits.Cpu().Sign() != 0 {
		t.Errorf("it requests %v", container.Resources)
	}
	var all bytes.Buffer
	if err := WriteYAML(&all, g.Objects()...); err != nil {
		t.Fatal(err)
	}
	if text := all.String(); strings.Contains(text, "PRIVATE KEY") || strings.Count(text, "kind: Secret\n") != 1 {
		t.Errorf("a key is printed:\n%s", text)
	}
}

// What is for the guard's Pods does not select those of its probers, and the other way round: else the gate's Service
// would send requests to them.
func TestAGuardsPodsAreNotItsProbers(t *testing.T) {
	g := guardFleet()
	guard, prober := labels.Set(g.deployment().Spec.Template.Labels), labels.Set(g.set.Spec.Template.Labels)
	ofProbers, err := labels.Parse(GuardProberSelector)
	if err != nil {
		t.Fatal(err)
	}
	selector := func(s *metav1.LabelSelector) labels.Selector {
		parsed, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	selectors := map[string]labels.Selector{"probers": ofProbers, "DaemonSet": selector(g.set.Spec.Selector)}
	for _, o := range g.Objects() {
		switch o := o.(type) {
		case *appsv1.Deployment:
			selectors["Deployment"] = selector(o.Spec.Selector)
		case *corev1.Service:
			selectors["Service"] = labels.SelectorFromSet(o.Spec.Selector)
		case *policyv1.PodDisruptionBudget:
			selectors["PodDisruptionBudget"] = selector(o.Spec.Selector)
		}
	}
	policy := proberPolicy().(*networkingv1.NetworkPolicy).Spec
	selectors["NetworkPolicy of probers"] = selector(&policy.PodSelector)
	selectors["whom it lets in"] = selector(policy.Ingress[0].From[0].PodSelector)
	selectors["NetworkPolicy"] = selector(&guardPolicy().(*networkingv1.NetworkPolicy).Spec.PodSelector)
	for name, s := range selectors {
		want := slices.Contains([]string{"probers", "DaemonSet", "NetworkPolicy of probers"}, name)
		if s.Matches(prober) != want || s.Matches(guard) == want {
			t.Errorf("%s: the guard's Pods %v, the probers' %v", name, s.Matches(guard), s.Matches(prober))
		}
	}
	if len(selectors) != 8 || prober[RunLabel] != "" {
		t.Errorf("%d selectors, labels %v", len(selectors), prober)
	}
}

// --from of a guard puts probers where that of a run does, and its flag says whose they are.
func TestAGuardMeasuresFromTheNodesOfItsFrom(t *testing.T) {
	pool, err := labels.Parse("pool=web")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		guard Guard
		run   Config
	}{
		"all":    {Guard{ProberLabels: labels.Everything()}, Config{ProberLabels: labels.Everything()}},
		"names":  {Guard{Probers: []string{"node1", "node2"}}, Config{Probers: []string{"node1", "node2"}}},
		"labels": {Guard{ProberLabels: pool}, Config{ProberLabels: pool}},
		"none":   {Guard{}, Config{}},
	} {
		var got *corev1.Affinity
		there := false
		for _, o := range c.guard.Objects() {
			if set, ok := o.(*appsv1.DaemonSet); ok {
				got, there = set.Spec.Template.Spec.Affinity, true
			}
		}
		if there {
			if diff := cmp.Diff(c.run.proberAffinity(), got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		flag := slices.Contains(c.guard.deployment().Spec.Template.Spec.Containers[0].Args, "--probers")
		if want := name != "none"; there != want || flag != want {
			t.Errorf("%s: a DaemonSet %v, the flag %v", name, there, flag)
		}
	}
}
