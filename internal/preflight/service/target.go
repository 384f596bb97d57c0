package service

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/hint"
)

// A Target names what is to be judged: a Service, or a workload, which stands for the Services that select its Pods.
type Target struct{ Kind, Name string } // the kind in lower case and in the singular

func (t Target) String() string { return t.Kind + "/" + t.Name }

// targetKinds are the kinds that a target may be of.
var targetKinds = []string{
	"service", "deployment", "statefulset", "daemonset", "replicaset", "replicationcontroller",
	"rollout", "job", "cronjob", "pod",
}

const targetHint = "svc/NAME, or a workload: deploy/NAME, sts/NAME, ds/NAME, rollout/NAME"

// ParseTarget reads an argument as kubectl writes it, such as svc/web.
func ParseTarget(arg string) (Target, error) {
	const (
		noTarget = "preflight is of a Service or a workload, %s: not %q"
		noName   = "preflight takes svc/NAME without a port, a path or a namespace: not %q"
	)
	kind, name, ok := strings.Cut(arg, "/")
	t := Target{KindWord(kind), name}
	switch {
	case !ok && arg != "":
		return t, hint.Errorf("svc/"+arg+"?", "%q is no %s", arg, targetHint)
	case strings.Contains(arg, "://") || !slices.Contains(targetKinds, t.Kind):
		return t, hint.Errorf("as in `lapse preflight svc/web`", noTarget, targetHint, arg)
	case name == "" || strings.ContainsAny(name, ":/?"):
		return t, hint.Errorf("as in `lapse preflight svc/web -n shop`", noName, arg)
	}
	return t, nil
}

// shortKinds are the short names of kinds that kubectl takes.
var shortKinds = map[string]string{
	"svc":    "service",
	"po":     "pod",
	"deploy": "deployment",
	"sts":    "statefulset",
	"ds":     "daemonset",
	"rs":     "replicaset",
	"rc":     "replicationcontroller",
	"ro":     "rollout",
	"cj":     "cronjob",
	"pdb":    "poddisruptionbudget",
	"hpa":    "horizontalpodautoscaler",
	"no":     "node",
}

// KindWord returns a kind in lower case and in the singular, from any form that kubectl takes.
func KindWord(kind string) string {
	word, _, _ := strings.Cut(strings.ToLower(kind), ".")
	if long := shortKinds[word]; long != "" {
		return long
	}
	return strings.TrimSuffix(word, "s")
}

// SameObject reports whether two names mean one object, as deploy/web and Deployment/web do.
func SameObject(a, b string) bool {
	kind, name, ok := strings.Cut(a, "/")
	other, otherName, otherOK := strings.Cut(b, "/")
	return a == b || ok && otherOK && name == otherName && KindWord(kind) == KindWord(other)
}

// StandIn returns a Service that selects a workload's Pods, for a workload without one.
func StandIn(w *Workload) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: w.Meta.Name, Namespace: w.Meta.Namespace},
		Spec:       corev1.ServiceSpec{Selector: w.Template.Labels},
	}
}

// SetUnrouted notes that no Service selects the workload: only rules about Pods hold.
func (s *State) SetUnrouted(w *Workload) {
	s.Unrouted = w.Kind
	s.Workloads = slices.DeleteFunc(s.Workloads, func(o Workload) bool {
		return o.Kind != w.Kind || o.Meta.Name != w.Meta.Name
	})
	s.Missing[EndpointsFact] = fmt.Sprintf("no Service selects %s: nothing routes requests to its Pods", w.Object())
}
