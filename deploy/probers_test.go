package deploy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A prober's Pod has no rights and stays where it is, whatever happens to its node. Only what it needs of the run's
// keys is in its environment.
func TestProbersHaveNoRightsAndNoOthersKeys(t *testing.T) {
	config := exampleConfig()
	config.Probers, config.Private = []string{"node1", "node2"}, []byte(`{"headers":["Authorization: x"]}`)
	var err error
	if config.Keys, err = NewKeys(config.deadline()); err != nil {
		t.Fatal(err)
	}
	objects := config.Objects()
	spec := objects.Probers.Spec.Template.Spec
	if *spec.AutomountServiceAccountToken || spec.ServiceAccountName != "" || len(spec.Volumes) > 0 {
		t.Errorf("a prober has a token or a volume: %+v", spec)
	}
	if len(spec.Tolerations) != 1 || spec.Tolerations[0].Operator != corev1.TolerationOpExists || spec.Tolerations[0].Key != "" {
		t.Errorf("a prober does not tolerate every taint: %+v", spec.Tolerations)
	}
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchFields) != 1 || !slices.Contains(config.Probers, term.MatchFields[0].Values[0]) {
			t.Errorf("a prober may run on %+v", term)
		}
	}
	for _, variable := range spec.Containers[0].Env {
		if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil && !slices.Contains([]string{"ca.crt", "prober.crt", "prober.key"}, from.SecretKeyRef.Key) {
			t.Errorf("a prober gets %s of the run's Secret", from.SecretKeyRef.Key)
		}
	}
}

// The Service of `lapse routes` selects its own Pods, and neither the agent nor the probers.
func TestCanarySelectsItsOwnPodsAlone(t *testing.T) {
	config := exampleConfig()
	config.Probers, config.CanaryPods = []string{"node1"}, 4
	objects := config.Objects()
	selector := labels.SelectorFromSet(objects.CanaryService.Spec.Selector)
	for name, test := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"canary": {objects.Canary.Spec.Template.Labels, true},
		"agent":  {objects.Job.Spec.Template.Labels, false},
		"prober": {objects.Probers.Spec.Template.Labels, false},
	} {
		if got := selector.Matches(labels.Set(test.labels)); got != test.want {
			t.Errorf("it selects the %s: %v", name, got)
		}
	}
	if twin := objects.CanaryTwin; twin.Spec.ClusterIP != corev1.ClusterIPNone || twin.Name != TwinName(config.Name) || !ours(twin) ||
		!maps.Equal(twin.Spec.Selector, objects.CanaryService.Spec.Selector) || objects.CanaryService.Spec.ClusterIP != "" || objects.CanaryService.Name != CanaryName(config.Name) {
		t.Errorf("its headless twin is %+v, and it is %+v", twin, objects.CanaryService)
	}
	if problems := validation.IsDNS1035Label(TwinName(strings.Repeat("x", maxName))); len(problems) > 0 {
		t.Errorf("the twin of a run with a long name: %s", problems)
	}
	objects.belongTo(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: config.Name, UID: "job"}})
	if owners := objects.CanaryTwin.OwnerReferences; len(owners) != 1 || owners[0].UID != "job" {
		t.Errorf("the twin does not go with the Job: %+v", owners)
	}
	if pods := objects.Canary.Spec.Replicas; *pods != 4 {
		t.Errorf("it has %d Pods", *pods)
	}
}

// The nodes that a label selector means to `kubectl get nodes` are those that the DaemonSet is for.
func TestProbersOfAnAppliedRunGoWhereTheirLabelsSay(t *testing.T) {
	for _, test := range []struct {
		selector string
		want     []corev1.NodeSelectorRequirement
	}{
		{"", nil},
		{"zone=a", []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a"}}}},
		{"zone in (b,a),!gpu", []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: "DoesNotExist"}, {Key: "zone", Operator: "In", Values: []string{"a", "b"}}}},
		{"zone!=c", []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "NotIn", Values: []string{"c"}}}},
	} {
		config := fleetConfig()
		var err error
		if config.ProberLabels, err = labels.Parse(test.selector); err != nil {
			t.Fatal(err)
		}
		terms := config.Objects().Probers.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		want := append(test.want,
			corev1.NodeSelectorRequirement{Key: "eks.amazonaws.com/compute-type", Operator: "NotIn", Values: []string{"fargate"}},
			corev1.NodeSelectorRequirement{Key: "type", Operator: "NotIn", Values: []string{"virtual-kubelet"}})
		if diff := cmp.Diff([]corev1.NodeSelectorTerm{{MatchExpressions: want}}, terms); diff != "" {
			t.Errorf("%q: %s", test.selector, diff)
		}
	}
}
