package deploy

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// onLinux returns the labels of the nodes that a Pod may run on: those with an operating system that Lapse's image has,
// and with labels.
func onLinux(labels map[string]string) map[string]string {
	selector := map[string]string{}
	maps.Copy(selector, labels)
	selector[corev1.LabelOSStable] = "linux"
	return selector
}

// virtual are labels of what is listed as a node and runs no Pod of a DaemonSet. Their taints do not keep off probers,
// which tolerate every taint.
var virtual = []corev1.NodeSelectorRequirement{
	{Key: "eks.amazonaws.com/compute-type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"fargate"}},
	{Key: "type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-kubelet"}},
}

// CanProbe reports whether a prober can run on a node.
func CanProbe(node *corev1.Node) bool {
	is := func(not corev1.NodeSelectorRequirement) bool {
		return slices.Contains(not.Values, node.Labels[not.Key])
	}
	return cmp.Or(node.Labels[corev1.LabelOSStable], "linux") == "linux" && !slices.ContainsFunc(virtual, is)
}

// affinity keeps the agent off the nodes to be drained, avoid, and if possible off those of the Service, spare.
//
// The latter is a preference among nodes, not an anti-affinity to the Service's Pods. The scheduler applies a preferred
// pod anti-affinity in both directions: it would keep the Service's replacement Pods away from the agent's node, and so
// change the measured drain.
func affinity(avoid, spare []string) *corev1.Affinity {
	if len(avoid)+len(spare) == 0 {
		return nil
	}
	node := &corev1.NodeAffinity{}
	if len(avoid) > 0 {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{notNamed(avoid)},
		}
	}
	if len(spare) > 0 {
		node.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: 100, Preference: notNamed(spare)},
		}
	}
	return &corev1.Affinity{NodeAffinity: node}
}

// notNamed returns a term that matches every node except these. It compares names, because the label
// kubernetes.io/hostname may differ. The API allows one value per requirement on a name.
func notNamed(nodes []string) corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for _, node := range nodes {
		term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{node},
		})
	}
	return term
}

// proberAffinity restricts the probers to the nodes to measure from.
func (c Config) proberAffinity() *corev1.Affinity {
	var nodes *corev1.NodeSelector
	if len(c.Probers) > 0 {
		nodes = named(c.Probers)
	} else {
		nodes = labelled(c.ProberLabels)
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: nodes}}
}

// operators are the operators of label selectors, as node selectors name them.
var operators = map[selection.Operator]corev1.NodeSelectorOperator{
	selection.In:           corev1.NodeSelectorOpIn,
	selection.Equals:       corev1.NodeSelectorOpIn,
	selection.DoubleEquals: corev1.NodeSelectorOpIn,
	selection.NotIn:        corev1.NodeSelectorOpNotIn,
	selection.NotEquals:    corev1.NodeSelectorOpNotIn,
	selection.Exists:       corev1.NodeSelectorOpExists,
	selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
	selection.GreaterThan:  corev1.NodeSelectorOpGt,
	selection.LessThan:     corev1.NodeSelectorOpLt,
}

// labelled returns a selector of the nodes that a label selector selects, without virtual ones.
func labelled(nodes labels.Selector) *corev1.NodeSelector {
	var term corev1.NodeSelectorTerm
	requirements, _ := nodes.Requirements()
	for _, r := range requirements {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: r.Key(), Operator: operators[r.Operator()], Values: slices.Sorted(slices.Values(r.ValuesUnsorted())),
		})
	}
	term.MatchExpressions = append(term.MatchExpressions, virtual...)
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
}

// named returns a selector of these nodes. The API allows one value per requirement on a name, so each has a term.
func named(nodes []string) *corev1.NodeSelector {
	selector := &corev1.NodeSelector{}
	for _, node := range nodes {
		is := corev1.NodeSelectorRequirement{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}
		term := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{is}}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
	}
	return selector
}

// ProberNode returns the node of a prober's Pod. It works before the Pod is scheduled, because the DaemonSet's
// controller writes the node into the Pod's affinity.
func ProberNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return pod.Spec.NodeName
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		return ""
	}
	for _, field := range required.NodeSelectorTerms[0].MatchFields {
		if field.Key == "metadata.name" && len(field.Values) == 1 {
			return field.Values[0]
		}
	}
	return ""
}
