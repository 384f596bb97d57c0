package watcher

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/kube/hook"
	"lapse/timeline"
)

// newTemplate returns a snapshot of a Pod's template if it was not recorded yet.
func (n *namespace) newTemplate(pod *corev1.Pod, how origin) []timeline.Event {
	t := templateOf(pod)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.interest.templates[t.ID] {
		return nil
	}
	n.interest.templates[t.ID] = true
	to := timeline.SnapshotCreated
	if how == listed {
		to = timeline.SnapshotFound
	}
	e := snapshotEvent("Pod", pod, to, "Pod template", timeline.Snapshot{Template: &t})
	if c := metav1.GetControllerOf(pod); c != nil {
		e.Object.Kind, e.Object.Name, e.Object.UID = c.Kind, c.Name, string(c.UID)
	}
	return []timeline.Event{e}
}

// ownerOf returns KIND/NAME of an object's controller, or "".
func ownerOf(o metav1.Object) string {
	if c := metav1.GetControllerOf(o); c != nil {
		return c.Kind + "/" + c.Name
	}
	return ""
}

// templateOf returns the template of a Pod, from its spec. The ID is a hash of the template and the Pod's controller:
// Pods of one controller with the same spec have the same ID.
func templateOf(pod *corev1.Pod) timeline.PodTemplate {
	spec := &pod.Spec
	t := timeline.PodTemplate{
		Revision:      pod.Labels["controller-revision-hash"], // of a StatefulSet and a DaemonSet
		RestartPolicy: string(spec.RestartPolicy),
		HostNetwork:   spec.HostNetwork,
		Containers:    []timeline.Container{},
	}
	if spec.TerminationGracePeriodSeconds != nil {
		t.Grace = seconds(*spec.TerminationGracePeriodSeconds)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
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
	is := timeline.Container{
		Name:      c.Name,
		Sidecar:   sidecar,
		Readiness: probeOf(c.ReadinessProbe),
		Liveness:  probeOf(c.LivenessProbe),
		Startup:   probeOf(c.StartupProbe),
	}
	if c.Lifecycle != nil {
		is.PreStop = hookOf(c.Lifecycle.PreStop)
	}
	return is
}

func hookOf(h *corev1.LifecycleHandler) *timeline.Hook {
	switch {
	case h == nil:
		return nil
	case h.Sleep != nil:
		return &timeline.Hook{Kind: "sleep", Sleep: seconds(h.Sleep.Seconds)}
	case h.Exec != nil:
		if effect := hook.Read(h.Exec.Command); effect.Sure() && effect.Serves > 0 {
			return &timeline.Hook{Kind: "exec", Sleep: effect.Serves}
		}
		return &timeline.Hook{Kind: "exec", Command: scriptOf(h.Exec.Command)}
	case h.HTTPGet != nil:
		return &timeline.Hook{Kind: "httpGet"}
	case h.TCPSocket != nil:
		return &timeline.Hook{Kind: "tcpSocket"}
	}
	return nil
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
		Delay:     seconds(p.InitialDelaySeconds),
		Period:    seconds(p.PeriodSeconds),
		Timeout:   seconds(p.TimeoutSeconds),
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

func seconds[N int32 | int64](n N) time.Duration { return time.Duration(n) * time.Second }
