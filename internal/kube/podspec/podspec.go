// Package podspec answers what a Pod's spec means: its ports, probes, hooks and places. What a manifest leaves out has
// the API server's defaults.
//
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
package podspec

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Grace returns the termination grace period. The API server takes one below 0 for 1 s.
func Grace(spec *corev1.PodSpec) time.Duration {
	switch s := spec.TerminationGracePeriodSeconds; {
	case s == nil:
		return 30 * time.Second
	case *s < 0:
		return time.Second
	default:
		return Seconds(*s)
	}
}

// TargetOf returns the port of Pods that a Service's port leads to.
func TargetOf(p corev1.ServicePort) intstr.IntOrString {
	if p.TargetPort == (intstr.IntOrString{}) {
		return intstr.FromInt32(p.Port)
	}
	return p.TargetPort
}

// Listeners returns the containers that declare the port which a Service's port leads to. If none does, it returns
// those with a probe of it: containers share a network, so a probe may ask another one.
func Listeners(spec *corev1.PodSpec, p corev1.ServicePort) (found []*corev1.Container) {
	target := TargetOf(p)
	for _, c := range Lasting(spec) {
		if slices.ContainsFunc(c.Ports, func(own corev1.ContainerPort) bool { return leadsTo(p, own) }) {
			found = append(found, c)
		}
	}
	if len(found) > 0 || target.Type == intstr.String {
		return found
	}
	for _, c := range Lasting(spec) {
		if slices.ContainsFunc(Probes(c), func(probe *corev1.Probe) bool { return probed(probe) == target }) {
			found = append(found, c)
		}
	}
	return found
}

// leadsTo reports whether a Service's port leads to a container's.
func leadsTo(p corev1.ServicePort, own corev1.ContainerPort) bool {
	target := TargetOf(p)
	if target.Type == intstr.Int {
		return own.ContainerPort == target.IntVal
	}
	const tcp = corev1.ProtocolTCP
	return own.Name == target.StrVal && cmp.Or(own.Protocol, tcp) == cmp.Or(p.Protocol, tcp)
}

// Lasting returns the containers that run as long as the Pod, native sidecars among them.
func Lasting(spec *corev1.PodSpec) (all []*corev1.Container) {
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if IsSidecar(&spec.InitContainers[i]) {
			all = append(all, &spec.InitContainers[i])
		}
	}
	return all
}

// OnePerNode reports whether no two Pods of a spec may be on one node: they take a port of it, or refuse each other.
// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
func OnePerNode(spec *corev1.PodSpec, own map[string]string) bool {
	onHost := func(p corev1.ContainerPort) bool { return p.HostPort != 0 || spec.HostNetwork }
	for _, c := range Lasting(spec) {
		if slices.ContainsFunc(c.Ports, onHost) {
			return true
		}
	}
	if spec.Affinity == nil || spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		func(t corev1.PodAffinityTerm) bool {
			selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
			return err == nil && t.TopologyKey == corev1.LabelHostname && len(t.MatchLabelKeys) == 0 &&
				selector.Matches(labels.Set(own))
		})
}

// IsSidecar reports whether an init container is a native sidecar, which ends after the containers.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Serving returns the containers that a Service's ports lead to. If the spec does not show them, or they are native
// sidecars, it returns all containers that are none.
func Serving(svc *corev1.Service, spec *corev1.PodSpec) (found []*corev1.Container) {
	for i := range spec.Containers {
		c := &spec.Containers[i]
		listens := func(p corev1.ServicePort) bool { return slices.Contains(Listeners(spec, p), c) }
		if slices.ContainsFunc(svc.Spec.Ports, listens) {
			found = append(found, c)
		}
	}
	if len(found) > 0 {
		return found
	}
	for i := range spec.Containers {
		found = append(found, &spec.Containers[i])
	}
	return found
}

// PinnedTo returns the only node that Pods of this spec may run on, and the field that says so. It returns "" if there
// may be others, or if the node is not given by its name.
func PinnedTo(spec *corev1.PodSpec) (node, field string) {
	if spec.NodeName != "" {
		return spec.NodeName, "nodeName"
	}
	if node := spec.NodeSelector[corev1.LabelHostname]; node != "" {
		return node, "nodeSelector." + corev1.LabelHostname
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return "", ""
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) != 1 { // any one of several suffices
		return "", ""
	}
	term := required.NodeSelectorTerms[0]
	for _, want := range slices.Concat(term.MatchExpressions, term.MatchFields) {
		names := want.Key == corev1.LabelHostname || want.Key == "metadata.name"
		if names && want.Operator == corev1.NodeSelectorOpIn && len(want.Values) == 1 {
			return want.Values[0], "affinity.nodeAffinity"
		}
	}
	return "", ""
}
