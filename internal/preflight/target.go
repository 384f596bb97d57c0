package preflight

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
var targetKinds = []string{"service", "deployment", "statefulset", "daemonset", "replicaset", "replicationcontroller", "rollout", "job", "cronjob", "pod"}

const targetHint = "svc/NAME, or a workload: deploy/NAME, sts/NAME, ds/NAME, rollout/NAME"

// ParseTarget reads an argument as kubectl writes it, such as svc/web.
func ParseTarget(arg string) (Target, error) {
	kind, name, ok := strings.Cut(arg, "/")
	t := Target{kindWord(kind), name}
	switch {
	case !ok && arg != "":
		return t, hint.Errorf("svc/"+arg+"?", "%q is no %s", arg, targetHint)
	case strings.Contains(arg, "://") || !slices.Contains(targetKinds, t.Kind):
		return t, hint.Errorf("as in `lapse preflight svc/web`", "preflight is of a Service or a workload, %s: not %q", targetHint, arg)
	case name == "" || strings.ContainsAny(name, ":/?"):
		return t, hint.Errorf("as in `lapse preflight svc/web -n shop`", "preflight takes svc/NAME without a port, a path or a namespace: not %q", arg)
	}
	return t, nil
}

// States returns what the manifests have of each target, each Service once. Without a target they are all Services,
// of a namespace if one is given.
func (m *Manifests) States(namespace string, targets []Target) (states []*State, err error) {
	services := slices.DeleteFunc(m.services(), func(s *corev1.Service) bool { return !within(s, namespace) })
	if len(targets) == 0 {
		if len(services) == 0 {
			return nil, m.noService(namespace)
		}
		for _, s := range services {
			states = append(states, m.of(s))
		}
		return states, nil
	}
	known := map[*corev1.Service]bool{}
	for _, t := range targets {
		if t.Kind == "service" {
			s, err := m.service(namespace, t.Name)
			if err != nil {
				return nil, err
			}
			if i := slices.IndexFunc(services, func(o *corev1.Service) bool { return o.Name == s.Name && o.Namespace == s.Namespace }); i >= 0 {
				s = services[i]
			}
			if !known[s] {
				known[s] = true
				states = append(states, m.of(s))
			}
			continue
		}
		w, err := m.workload(namespace, t)
		if err != nil {
			return nil, err
		}
		selecting := 0
		for _, s := range services {
			if !sameNamespace(s.Namespace, w.Meta.Namespace) || !w.selected(s).any() {
				continue
			}
			if selecting++; !known[s] {
				known[s] = true
				states = append(states, m.of(s))
			}
		}
		if selecting == 0 {
			states = append(states, m.of(standIn(w)).unrouted(w))
		}
	}
	return states, nil
}

func within(o metav1.Object, namespace string) bool {
	return sameNamespace(o.GetNamespace(), namespace)
}

// sameNamespace reports whether two may be the same: "" is not known.
func sameNamespace(a, b string) bool { return a == "" || b == "" || a == b }

// standIn is a Service that selects a workload's Pods, where there is none.
func standIn(w *Workload) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: w.Meta.Name, Namespace: w.Meta.Namespace},
		Spec:       corev1.ServiceSpec{Selector: w.Template.Labels},
	}
}

// unrouted says that no Service selects a workload: what rules say of requests does not hold.
func (s *State) unrouted(w *Workload) *State {
	s.Unrouted = w.Kind
	s.Workloads = slices.DeleteFunc(s.Workloads, func(o Workload) bool { return o.Kind != w.Kind || o.Meta.Name != w.Meta.Name })
	s.Missing[EndpointsFact] = fmt.Sprintf("no Service selects %s: nothing routes requests to its Pods", w.object())
	return s
}

// aboutPods are the rules that hold also where nothing routes requests to the Pods.
var aboutPods = []string{budgetBlocks.ID, fragileHook.ID, drainRefuses.ID, noRoom.ID}

// workload finds the workload that is meant. A Pod is one, too.
func (m *Manifests) workload(namespace string, t Target) (*Workload, error) {
	var found []*Workload
	var names []string
	for _, o := range m.inNamespace(namespace) {
		w := workloadOf(o.kind.name, o.Object)
		if p, ok := o.Object.(*corev1.Pod); ok {
			w = &Workload{Kind: "Pod", Meta: p.ObjectMeta, Template: corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}}
		}
		if w == nil || kindWord(w.Kind) != t.Kind {
			continue
		}
		names = append(names, t.Kind+"/"+w.Meta.Name)
		if w.Meta.Name == t.Name {
			found = append(found, w)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, hint.Errorf("name its namespace with -n", "the manifests have %d objects %s", len(found), t)
	case len(names) == 0:
		return nil, hint.Errorf("add the file that has it with another -f", "the manifests have no %s", t)
	}
	slices.Sort(names)
	return nil, hint.Errorf("they have "+some(slices.Compact(names), 12), "the manifests have no %s", t)
}

// noService says why nothing can be judged, and what to try.
func (m *Manifests) noService(namespace string) error {
	where := ""
	if namespace != "" {
		where = fmt.Sprintf(" in namespace %q", namespace)
	}
	advice := "add the file that has it with another -f, or name a workload: deploy/NAME"
	switch {
	case len(m.rendered) > 0:
		advice = "render first: " + some(m.rendered, 3)
	case len(m.services()) > 0:
		advice = "they have " + some(m.serviceNames(), 12)
	}
	return hint.Errorf(advice, "the manifests have no Service%s", where)
}

// serviceNames lists the Services as kubectl takes them.
func (m *manifests) serviceNames() (names []string) {
	for _, s := range m.services() {
		name := "svc/" + s.Name
		if s.Namespace != "" {
			name += " -n " + s.Namespace
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
