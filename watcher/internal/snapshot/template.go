package snapshot

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/kube/hook"
	"lapse/internal/kube/podspec"
	"lapse/timeline"
)

// Template returns the template of a Pod, from its spec. The ID is a hash of the template and the Pod's controller:
// Pods of one controller with the same spec have the same ID.
func Template(pod *corev1.Pod) timeline.PodTemplate {
	spec := &pod.Spec
	t := timeline.PodTemplate{
		Revision:      pod.Labels["controller-revision-hash"], // of a StatefulSet and a DaemonSet
		RestartPolicy: string(spec.RestartPolicy),
		HostNetwork:   spec.HostNetwork,
		Containers:    []timeline.Container{},
	}
	if spec.TerminationGracePeriodSeconds != nil {
		t.Grace = podspec.Seconds(*spec.TerminationGracePeriodSeconds)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if podspec.IsSidecar(c) {
			t.Containers = append(t.Containers, containerOf(c, true))
		}
	}
	for i := range spec.Containers {
		t.Containers = append(t.Containers, containerOf(&spec.Containers[i], false))
	}
	owner := string(pod.UID)
	if c := metav1.GetControllerOf(pod); c != nil {
		owner = string(c.UID)
	}
	text, _ := json.Marshal(t) // cannot fail: JSON has all its types
	sum := sha256.Sum256(append(text, owner...))
	t.ID = fmt.Sprintf("%x", sum[:4])
	return t
}

func containerOf(c *corev1.Container, sidecar bool) timeline.Container {
	return timeline.Container{
		Name:      c.Name,
		Sidecar:   sidecar,
		PreStop:   hookOf(podspec.PreStop(c)),
		Readiness: probeOf(c.ReadinessProbe),
		Liveness:  probeOf(c.LivenessProbe),
		Startup:   probeOf(c.StartupProbe),
	}
}

// hookOf returns a preStop hook: its sleep, or what it runs if a sleep is not surely all that it does.
func hookOf(h *corev1.LifecycleHandler) *timeline.Hook {
	if h == nil {
		return nil
	}
	is := &timeline.Hook{Kind: podspec.HookKind(h)}
	if effect := podspec.Effect(h); effect.Sure() {
		is.Sleep = effect.Serves
	}
	if h.Exec != nil && is.Sleep == 0 {
		is.Command = scriptOf(h.Exec.Command)
	}
	return is
}

// scriptOf returns what a command runs: the shell's script, or the command line.
func scriptOf(command []string) string {
	if script, _, ok := hook.Script(command); ok && len(command) == 3 {
		return strings.TrimSpace(script)
	}
	return timeline.JoinCommand(command)
}

func probeOf(p *corev1.Probe) *timeline.Probe {
	if p == nil {
		return nil
	}
	is := &timeline.Probe{
		Delay:     podspec.Seconds(p.InitialDelaySeconds),
		Period:    podspec.Seconds(p.PeriodSeconds),
		Timeout:   podspec.Seconds(p.TimeoutSeconds),
		Threshold: int(p.FailureThreshold),
	}
	switch {
	case p.HTTPGet != nil:
		is.Kind, is.Path, is.Port = "httpGet", p.HTTPGet.Path, p.HTTPGet.Port.String()
	case p.TCPSocket != nil:
		is.Kind, is.Port = "tcpSocket", p.TCPSocket.Port.String()
	case p.GRPC != nil:
		is.Kind = "grpc"
	default:
		is.Kind = "exec"
	}
	return is
}
