package deploy

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"lapse/deploy/agent"
)

// PartLabel is on the Pods of a run's probers, with the value ProberPart.
const (
	PartLabel  = "lapse.dev/part"
	ProberPart = "prober"
)

// EnvProbe is set for a prober alone: the address of its API, [::]:8090.
const EnvProbe = "LAPSE_PROBE"

// ProberSelector selects the Pods of a run's probers.
func ProberSelector(run string) string {
	return RunLabel + "=" + run + "," + PartLabel + "=" + ProberPart
}

// ProbersName is the name of a run's DaemonSet.
func ProbersName(run string) string { return run + "-probers" }

// daemonSet runs a prober on each of the chosen nodes. A drain leaves its Pods where they are, so that the drained node's own view is kept.
//
// They have no rights and no token: they measure, and answer to the run's coordinator. They tolerate every taint, because nodes that are
// cordoned, drained or not ready are what a run is about.
func (c Config) daemonSet() *appsv1.DaemonSet {
	meta := c.meta()
	meta.Name = ProbersName(c.Name)
	return &appsv1.DaemonSet{
		TypeMeta: typeMeta("apps/v1", "DaemonSet"), ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{RunLabel: c.Name, PartLabel: ProberPart}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: c.proberLabels(), Annotations: map[string]string{"linkerd.io/inject": "disabled"}},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken:  new(false),
					TerminationGracePeriodSeconds: new(seconds(terminationGrace)),
					EnableServiceLinks:            new(false),
					Affinity:                      c.proberAffinity(),
					Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					ImagePullSecrets:              c.pullSecrets(),
					SecurityContext:               restricted(),
					Containers:                    []corev1.Container{c.prober()},
				},
			},
		},
	}
}

func (c Config) proberLabels() map[string]string {
	all := c.podLabels()
	all[PartLabel] = ProberPart
	return all
}

func (c Config) prober() corev1.Container {
	env := []corev1.EnvVar{
		{Name: EnvProbe, Value: "[::]:" + strconv.Itoa(agent.ProberPort)},
		{Name: EnvDir, Value: DefaultDir},
	}
	env = append(env, commonEnv()...)
	container := c.measuring(append(env, c.keyEnv(proberKey)...), "probe")
	container.Ports = []corev1.ContainerPort{{Name: "lapse", ContainerPort: agent.ProberPort}}
	return container
}

func (c Config) hasProbers() bool { return len(c.Probers) > 0 || c.ProberLabels != nil }

// proberAffinity keeps the probers to the nodes to measure from; nil where these are all.
func (c Config) proberAffinity() *corev1.Affinity {
	var nodes *corev1.NodeSelector
	switch {
	case len(c.Probers) > 0:
		nodes = named(c.Probers)
	case c.ProberLabels.Empty():
		return nil
	default:
		nodes = labelled(c.ProberLabels)
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: nodes}}
}

// labelled matches the nodes that a label selector selects.
func labelled(nodes labels.Selector) *corev1.NodeSelector {
	operators := map[selection.Operator]corev1.NodeSelectorOperator{
		selection.In: corev1.NodeSelectorOpIn, selection.Equals: corev1.NodeSelectorOpIn, selection.DoubleEquals: corev1.NodeSelectorOpIn,
		selection.NotIn: corev1.NodeSelectorOpNotIn, selection.NotEquals: corev1.NodeSelectorOpNotIn,
		selection.Exists: corev1.NodeSelectorOpExists, selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
		selection.GreaterThan: corev1.NodeSelectorOpGt, selection.LessThan: corev1.NodeSelectorOpLt,
	}
	var term corev1.NodeSelectorTerm
	requirements, _ := nodes.Requirements()
	for _, r := range requirements {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: r.Key(), Operator: operators[r.Operator()], Values: slices.Sorted(slices.Values(r.ValuesUnsorted())),
		})
	}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
}

// named matches these nodes alone. The API allows one value per requirement on a name, so each has a term.
func named(nodes []string) *corev1.NodeSelector {
	selector := &corev1.NodeSelector{}
	for _, node := range nodes {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}})
	}
	return selector
}

// ProberNode is the node that a prober's Pod runs on, or is to run on: the DaemonSet's controller names it before the scheduler does.
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
