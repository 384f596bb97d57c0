package preflight

import (
	"path"
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

// serving are the containers that a Service's ports lead to. Where the spec does not tell, they are all that are no
// native sidecars.
func serving(svc *corev1.Service, spec *corev1.PodSpec) (found []*corev1.Container) {
	var all []*corev1.Container
	for i := range spec.Containers {
		c := &spec.Containers[i]
		all = append(all, c)
		if slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return opens(c, p) }) {
			found = append(found, c)
		}
	}
	if len(found) > 0 {
		return found
	}
	return all
}

// opens reports whether the container's spec names the port that a Service's port leads to, as its own or in its
// probes.
func opens(c *corev1.Container, p corev1.ServicePort) bool {
	target := p.TargetPort
	if target == (intstr.IntOrString{}) {
		target = intstr.FromInt32(p.Port)
	}
	for _, own := range c.Ports {
		if target.Type == intstr.String && own.Name == target.StrVal || target.Type == intstr.Int && own.ContainerPort == target.IntVal {
			return true
		}
	}
	for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		if probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Port == target || probe != nil && probe.TCPSocket != nil && probe.TCPSocket.Port == target {
			return true
		}
	}
	return false
}

// preStop is a container's hook, nil if it has none.
func preStop(c *corev1.Container) *corev1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PreStop
}

// sleeps is how long a hook delays SIGTERM, where its spec says so: a sleep action, or an exec of nothing but sleep.
func sleeps(h *corev1.LifecycleHandler) (length time.Duration, known bool) {
	switch {
	case h == nil:
		return 0, true
	case h.Sleep != nil:
		return seconds(h.Sleep.Seconds), true
	case h.Exec == nil:
		return 0, false
	}
	command := h.Exec.Command
	if len(command) == 3 && isShell(command[0]) && command[1] == "-c" {
		command = strings.Fields(command[2])
	}
	if len(command) != 2 || path.Base(command[0]) != "sleep" {
		return 0, false
	}
	length, err := time.ParseDuration(command[1])
	if err != nil {
		length, err = time.ParseDuration(command[1] + "s")
	}
	return length, err == nil
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

func isShell(command string) bool {
	return slices.Contains([]string{"sh", "bash", "ash", "dash"}, path.Base(command))
}

// sameCheck reports whether two probes ask the same question.
func sameCheck(a, b *corev1.Probe) bool { return reflect.DeepEqual(a.ProbeHandler, b.ProbeHandler) }

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
