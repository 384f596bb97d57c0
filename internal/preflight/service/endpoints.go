package service

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/correlate/quantity"
	"lapse/internal/kube/podspec"
)

// Total returns how many Pods are made of all templates.
func Total(all []Template) (n Amount) {
	for _, t := range all {
		n = n.Plus(t.Count)
	}
	return n
}

// Count returns how many endpoints that serve the Service has or will have, and the evidence for it.
func (s *State) Count() (n Amount, evidence []Evidence) {
	if s.Missing[EndpointsFact] == "" {
		n = Exactly(len(s.Ready()))
		return n, []Evidence{s.At("ready endpoints", n.Least)}
	}
	all, port := s.Rarest(s.Service.Spec.Ports)
	for _, t := range all {
		if t.Workload != nil {
			evidence = append(evidence, t.Evidence)
		}
	}
	n = Total(all)
	if evidence == nil {
		evidence = []Evidence{s.At("Pods selected", n.Least)}
	}
	if port != nil {
		field := fmt.Sprintf("spec.ports[%d].targetPort", port.Port)
		evidence = append(evidence, s.At(field, port.TargetPort.StrVal+", which no other Pods have"))
	}
	return n, evidence
}

// Rarest returns the port that the fewest Pods serve, and their templates: a port by name leads only to Pods that have
// it. The port is nil if all Pods serve all ports.
func (s *State) Rarest(ports []corev1.ServicePort) (fewest []Template, port *corev1.ServicePort) {
	fewest = s.Templates()
	for _, p := range ports {
		if podspec.TargetOf(p).Type == intstr.Int {
			continue
		}
		listen := filter(s.Templates(), func(t Template) bool { return t.ListensOn(p) })
		a, b := Total(listen), Total(fewest)
		if len(listen) > 0 && a.Known() && (!b.Known() || a.Least < b.Least) {
			fewest, port = listen, &p
		}
	}
	return fewest, port
}

// Sharing returns how many endpoints share the requests that a template's Pods get.
func (s *State) Sharing(t *Template) Amount {
	if s.Missing[EndpointsFact] == "" {
		n, _ := s.Count()
		return n
	}
	all, _ := s.Rarest(filter(s.Service.Spec.Ports, t.ListensOn))
	return Total(all)
}

// Ready returns the ready endpoints, without those of Pods that do not serve.
func (s *State) Ready() []Endpoint {
	_, foreign := byPorts(s.Service.Spec.Ports, s.Selected())
	isForeign := map[string]bool{} // by the name of a Pod
	for i := range s.Pods {
		p := &s.Pods[i]
		isForeign[p.Name] = slices.ContainsFunc(foreign, func(t Template) bool { return t.makes(p) })
	}
	return filter(s.Endpoints, func(e Endpoint) bool { return e.Ready && !isForeign[e.Pod] })
}

// ByNode returns how many ready endpoints each node has.
func (s *State) ByNode() map[string]int {
	n := map[string]int{}
	for _, e := range s.Ready() {
		if e.Node != "" {
			n[e.Node]++
		}
	}
	return n
}

// Placement says in words how many endpoints there are, and where.
func (s *State) Placement() string {
	if s.Missing[EndpointsFact] != "" {
		return s.replicas()
	}
	parts := []string{quantity.Count(len(s.Ready()), "ready endpoint")}
	nodes := s.ByNode()
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		parts = append(parts, fmt.Sprintf("%d on %s", nodes[node], node))
	}
	return strings.Join(parts, ", ")
}

// replicas says in words how many Pods there will be. Manifests say no more.
func (s *State) replicas() string {
	templates := s.Templates()
	n := Total(templates)
	what := "replica"
	if len(s.Pods) > 0 {
		what = "Pod"
	}
	switch {
	case len(s.Selected()) == 0:
		return "no Pods are known"
	case len(templates) == 0:
		return "no Pod that serves"
	case !slices.ContainsFunc(templates, func(t Template) bool { return t.Owner != "DaemonSet" }):
		return "a Pod on each node that the DaemonSet selects"
	case !n.Known() && n.Least == 0:
		return "an unknown number of " + what + "s"
	case !n.Known():
		return "at least " + quantity.Count(n.Least, what)
	case n.Most > n.Least:
		return fmt.Sprintf("%d to %s", n.Least, quantity.Count(n.Most, what))
	}
	words := quantity.Count(n.Least, what)
	if all, port := s.Rarest(s.Service.Spec.Ports); port != nil {
		words += fmt.Sprintf(", %d of them with port %d", Total(all).Least, port.Port)
	}
	return words
}
