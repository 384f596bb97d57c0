package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/timeline"
)

var wrongPods = Rule{
	ID:   "LP21",
	Name: "wrong-pods",
	Doc: "The selector takes Pods that do not listen on the Service's port, or loses its Pods with a rollout; " +
		"or no Pod has the port.",
	Needs:       []Fact{TemplatesFact},
	ConfirmedBy: []string{"failing-version"},
	Check: func(s *State) (found []Finding) {
		all := filter(s.selected(), func(t template) bool { return t.count != exactly(0) })
		for _, p := range s.Service.Spec.Ports {
			if !slices.ContainsFunc(all, func(t template) bool { return t.listensOn(p) }) {
				found = append(found, nobodyListens(s, p, all)...)
			}
		}
		for _, t := range all {
			if ports := deaf(s, &t, all); len(ports) > 0 {
				found = append(found, notListening(s, &t, ports, all))
			}
		}
		return append(found, untilRollout(s)...)
	},
}

// deaf returns the ports on which a template's Pods do not listen although others do, or are there to.
func deaf(s *State, t *template, all []template) (ports []string) {
	lasts := func(o template) bool { return !o.ends() }
	for _, p := range s.Service.Spec.Ports {
		target := targetOf(p)
		if target.Type == intstr.String || t.listensOn(p) { // Pods without a port of the name are no endpoints of it
			continue
		}
		listens := func(o template) bool { return o.listensOn(p) }
		if slices.ContainsFunc(all, listens) || t.ends() && slices.ContainsFunc(all, lasts) {
			ports = append(ports, target.String())
		}
	}
	return slices.Compact(ports)
}

// notListening is about Pods that the selector takes, and that are sent requests to ports on which they do not listen.
func notListening(s *State, t *template, ports []string, all []template) Finding {
	const (
		refused    = "the selector also takes %s not listen on %s: %s refused"
		undeclared = "the selector also takes %s not declare a port: " +
			"unless a server listens on %s all the same, %s refused"
		serversLabel = "a selector with a label that only the servers have, " +
			"or a targetPort by the name of a port that only they have"
	)
	listed, who, while := strings.Join(ports, " and "), maker(t)+"'s Pods, which do", " while they run"
	if t.owner == "" {
		who, while = t.object+", which does", " while it runs"
	}
	declared := portsOf(&t.spec)
	requests := share(t.count, total(all))
	f := Finding{
		Severity:   WillLose,
		Prediction: fmt.Sprintf(refused, who, listed, requests),
		Evidence: []Evidence{
			s.at("spec.selector", labelText(s.Service.Spec.Selector)),
			t.at("containers[*].ports", declared),
		},
		Fix: serversLabel,
	}
	switch {
	case t.ends():
		f.Prediction += while
	case declared == "none":
		f.Severity = MayLose
		f.Prediction = fmt.Sprintf(undeclared, who, listed, requests)
	}
	return f
}

// maker names what makes a template's Pods.
func maker(t *template) string {
	if c := metav1.GetControllerOf(&t.meta); c != nil && t.workload == nil {
		return c.Kind + "/" + c.Name
	}
	return t.object
}

// share is the part of all requests that some of the Pods get, with its verb.
func share(some, all amount) string {
	switch {
	case !some.known() || !all.known() || some.least == 0:
		return "some requests are"
	case some.least == all.least:
		return "all requests are"
	case all.least%some.least == 0:
		return fmt.Sprintf("1 in %d requests is", all.least/some.least)
	}
	return fmt.Sprintf("%d in %d requests are", some.least, all.least)
}

// portsOf lists the ports that a Pod's containers declare.
func portsOf(spec *corev1.PodSpec) string {
	var all []string
	for _, c := range lasting(spec) {
		for _, p := range c.Ports {
			text := fmt.Sprint(p.ContainerPort)
			if p.Name != "" {
				text += " (" + p.Name + ")"
			}
			all = append(all, text)
		}
	}
	return orNone(strings.Join(all, ", "))
}

// nobodyListens is about a port that leads to no port of any Pod. A name that no container has is no endpoint. A number
// that no container declares may be open: where a container declares no port at all, it is no finding.
func nobodyListens(s *State, p corev1.ServicePort, all []template) []Finding {
	const (
		noName = "no container has a port named %s: " +
			"the Service has no endpoint for its port %d, and all requests to it fail"
		noNumber = "no container declares port %s: unless a server listens there all the same, " +
			"all requests to port %d of the Service are refused"
	)
	target := targetOf(p)
	evidence := []Evidence{s.at(fmt.Sprintf("spec.ports[%d].targetPort", p.Port), target.String())}
	for _, t := range all {
		if target.Type == intstr.Int && portsOf(&t.spec) == "none" {
			return nil
		}
		evidence = append(evidence, t.at("containers[*].ports", portsOf(&t.spec)))
	}
	if len(all) == 0 {
		return nil
	}
	f := Finding{
		Severity:    WillLose,
		Prediction:  fmt.Sprintf(noName, target.String(), p.Port),
		Evidence:    evidence,
		Fix:         "the name or the number of a port that the server listens on",
		ConfirmedBy: []string{"no-ready-endpoint"},
	}
	if target.Type == intstr.Int {
		f.Severity, f.ConfirmedBy = MayLose, []string{}
		f.Prediction = fmt.Sprintf(noNumber, target.String(), p.Port)
	}
	return []Finding{f}
}

// untilRollout is about a selector with a label that a controller changes with each change of the template.
func untilRollout(s *State) (found []Finding) {
	const loses = "each rollout of %s changes the label %s of its Pods: " +
		"the Service selects none of the new ones, and all requests fail once the old ones are gone"
	for i := range s.Workloads {
		w := &s.Workloads[i]
		label := w.selected(s.Service).revision
		if label == "" {
			continue
		}
		found = append(found, Finding{
			Severity:    WillLose,
			Prediction:  fmt.Sprintf(loses, w.object(), label),
			Evidence:    []Evidence{s.at("spec.selector["+label+"]", s.Service.Spec.Selector[label])},
			Fix:         "leave the label out of the selector",
			ConfirmedBy: []string{"no-ready-endpoint"},
			When:        timeline.PodsReplaced,
		})
	}
	return found
}
