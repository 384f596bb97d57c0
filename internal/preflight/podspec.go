package preflight

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What a manifest leaves out has the API server's defaults.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/

// grace is the termination grace period.
func grace(spec *corev1.PodSpec) time.Duration {
	if spec.TerminationGracePeriodSeconds == nil {
		return 30 * time.Second
	}
	return seconds(*spec.TerminationGracePeriodSeconds)
}

// failsAfter is how long a probe may go on failing before it counts: period × threshold.
func failsAfter(p *corev1.Probe) time.Duration {
	period, threshold := p.PeriodSeconds, p.FailureThreshold
	if period == 0 {
		period = 10
	}
	if threshold == 0 {
		threshold = 3
	}
	return seconds(period * threshold)
}

func seconds[N int32 | int64](n N) time.Duration { return time.Duration(n) * time.Second }

// targetOf is the port of Pods that a Service's port leads to.
func targetOf(p corev1.ServicePort) intstr.IntOrString {
	if p.TargetPort == (intstr.IntOrString{}) {
		return intstr.FromInt32(p.Port)
	}
	return p.TargetPort
}

// listensOn reports whether the spec shows that a container listens where a Service's port leads to.
func (t *template) listensOn(p corev1.ServicePort) bool { return len(listeners(&t.spec, p)) > 0 }

// listeners returns the containers that declare the port which a Service's port leads to. If none does, it returns
// those with a probe of it: containers share a network, so a probe may ask another one.
func listeners(spec *corev1.PodSpec, p corev1.ServicePort) (found []*corev1.Container) {
	target := targetOf(p)
	declares := func(own corev1.ContainerPort) bool {
		if target.Type == intstr.String {
			return own.Name == target.StrVal && cmp.Or(own.Protocol, corev1.ProtocolTCP) == cmp.Or(p.Protocol, corev1.ProtocolTCP)
		}
		return own.ContainerPort == target.IntVal
	}
	for _, c := range lasting(spec) {
		if slices.ContainsFunc(c.Ports, declares) {
			found = append(found, c)
		}
	}
	if len(found) > 0 || target.Type == intstr.String {
		return found
	}
	for _, c := range lasting(spec) {
		if slices.ContainsFunc(probes(c), func(probe *corev1.Probe) bool { return asks(probe) == target }) {
			found = append(found, c)
		}
	}
	return found
}

// lasting returns the containers that run as long as the Pod: native sidecars are among them.
func lasting(spec *corev1.PodSpec) (all []*corev1.Container) {
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if isSidecar(&spec.InitContainers[i]) {
			all = append(all, &spec.InitContainers[i])
		}
	}
	return all
}

// isSidecar reports whether an init container is a native sidecar, which ends after the containers.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// probes returns those that a container has.
func probes(c *corev1.Container) []*corev1.Probe {
	return filter([]*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe}, func(p *corev1.Probe) bool { return p != nil })
}

// asks is the port that a probe connects to, 0 if it does not.
func asks(p *corev1.Probe) intstr.IntOrString {
	switch {
	case p.HTTPGet != nil:
		return p.HTTPGet.Port
	case p.TCPSocket != nil:
		return p.TCPSocket.Port
	case p.GRPC != nil:
		return intstr.FromInt32(p.GRPC.Port)
	}
	return intstr.IntOrString{}
}

// serving returns the containers that a Service's ports lead to. Where the spec does not tell, or they are native
// sidecars, these are all others.
func serving(svc *corev1.Service, spec *corev1.PodSpec) (found []*corev1.Container) {
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return slices.Contains(listeners(spec, p), c) }) {
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

// preStop is a container's hook, nil if it has none.
func preStop(c *corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PreStop
}

// kindOf names a hook's action as the spec does.
func kindOf(h *corev1.LifecycleHandler) string {
	switch {
	case h.Exec != nil:
		return "exec"
	case h.HTTPGet != nil:
		return "httpGet"
	case h.TCPSocket != nil:
		return "tcpSocket"
	}
	return "sleep"
}

// sameCheck reports whether two probes of a container ask the same question, however it is written.
func sameCheck(c *corev1.Container, a, b *corev1.Probe) bool {
	return reflect.DeepEqual(plainCheck(c, a.ProbeHandler), plainCheck(c, b.ProbeHandler))
}

// plainCheck fills in what an HTTP or TCP check leaves out and looks up its port. Of its headers only the host counts:
// it may choose another server.
func plainCheck(c *corev1.Container, h corev1.ProbeHandler) corev1.ProbeHandler {
	number := func(port intstr.IntOrString) intstr.IntOrString {
		for _, p := range c.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal {
				return intstr.FromInt32(p.ContainerPort)
			}
		}
		return port
	}
	if get := h.HTTPGet; get != nil {
		hosts := filter(get.HTTPHeaders, func(h corev1.HTTPHeader) bool { return strings.EqualFold(h.Name, "Host") })
		h.HTTPGet = &corev1.HTTPGetAction{
			Path: "/" + strings.TrimPrefix(get.Path, "/"), Port: number(get.Port), Host: get.Host,
			Scheme: cmp.Or(get.Scheme, corev1.URISchemeHTTP), HTTPHeaders: hosts,
		}
	}
	if open := h.TCPSocket; open != nil {
		h.TCPSocket = &corev1.TCPSocketAction{Port: number(open.Port), Host: open.Host}
	}
	return h
}

// pinnedTo is the only node that Pods of this spec may run on; "" if there may be others, or if that is not said by
// the node's name.
func pinnedTo(spec *corev1.PodSpec) (node, field string) {
	if spec.NodeName != "" {
		return spec.NodeName, "nodeName"
	}
	if node := spec.NodeSelector[corev1.LabelHostname]; node != "" {
		return node, "nodeSelector." + corev1.LabelHostname
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return "", ""
	}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 { // any one of several suffices
		return "", ""
	}
	for _, want := range slices.Concat(terms[0].MatchExpressions, terms[0].MatchFields) {
		if (want.Key == corev1.LabelHostname || want.Key == "metadata.name") && want.Operator == corev1.NodeSelectorOpIn && len(want.Values) == 1 {
			return want.Values[0], "affinity.nodeAffinity"
		}
	}
	return "", ""
}
