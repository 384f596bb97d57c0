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
	ID: "LP21", Name: "wrong-pods", Needs: []Fact{TemplatesFact},
	Doc:         "The selector takes Pods that do not listen on the Service's port, or loses its Pods with a rollout; or no Pod has the port.",
	ConfirmedBy: []string{"failing-version"},
	Check: func(s *State) (found []Finding) {
		all := filter(s.selected(), func(t template) bool { return t.count != exactly(0) })
		lacks := map[string][]string{} // the ports on which a template's Pods do not listen although others do
		for _, p := range s.Service.Spec.Ports {
			listen := filter(all, func(t template) bool { return t.listensOn(p) })
			if len(listen) == 0 {
				found = append(found, nobodyListens(s, p, all)...)
			}
			if targetOf(p).Type == intstr.String { // Pods without the port are no endpoints of it
				continue
			}
			for _, t := range all {
				if !t.listensOn(p) && (len(listen) > 0 || t.ends() && slices.ContainsFunc(all, func(o template) bool { return !o.ends() })) {
					target := targetOf(p)
					lacks[t.object] = append(lacks[t.object], target.String())
				}
			}
		}
		for _, t := range all {
			if ports := lacks[t.object]; len(ports) > 0 {
				found = append(found, notListening(s, &t, slices.Compact(ports), all))
			}
		}
		return append(found, untilRollout(s)...)
	},
}

// notListening is about Pods that the selector takes, and that are sent requests to ports on which they do not listen.
func notListening(s *State, t *template, ports []string, all []template) Finding {
	listed, who, while := strings.Join(ports, " and "), t.maker()+"'s Pods, which do", " while they run"
	if t.owner == "" {
		who, while = t.object+", which does", " while it runs"
	}
	f := Finding{
		Severity:   WillLose,
		Prediction: fmt.Sprintf("the selector also takes %s not listen on %s: %s refused", who, listed, share(t.count, total(all))),
		Evidence:   []Evidence{{"Service/" + s.Service.Name, "spec.selector", labelText(s.Service.Spec.Selector)}, t.at("containers[*].ports", portsOf(&t.spec))},
		Fix:        "a selector with a label that only the servers have, or a targetPort by the name of a port that only they have",
	}
	switch {
	case t.ends():
		f.Prediction += while
	case portsOf(&t.spec) == "none":
		f.Severity = MayLose
		f.Prediction = fmt.Sprintf("the selector also takes %s not declare a port: unless a server listens on %s all the same, %s refused", who, listed, share(t.count, total(all)))
	}
	return f
}

// maker names what makes the Pods.
func (t *template) maker() string {
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
// that no container declares may be open all the same: it says nothing where one declares no port at all.
func nobodyListens(s *State, p corev1.ServicePort, all []template) []Finding {
	target, evidence := targetOf(p), []Evidence{}
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
		Severity: WillLose, ConfirmedBy: []string{"no-ready-endpoint"},
		Prediction: fmt.Sprintf("no container has a port named %s: the Service has no endpoint for its port %d, and all requests to it fail", target.String(), p.Port),
		Evidence:   slices.Insert(evidence, 0, Evidence{"Service/" + s.Service.Name, fmt.Sprintf("spec.ports[%d].targetPort", p.Port), target.String()}),
		Fix:        "the name or the number of a port that the server listens on",
	}
	if target.Type == intstr.Int {
		f.Severity, f.ConfirmedBy = MayLose, []string{}
		f.Prediction = fmt.Sprintf("no container declares port %s: unless a server listens there all the same, all requests to port %d of the Service are refused", target.String(), p.Port)
	}
	return []Finding{f}
}

// untilRollout is about a selector with a label that a controller changes with each change of the template.
func untilRollout(s *State) (found []Finding) {
	for i := range s.Workloads {
		w := &s.Workloads[i]
		label := w.selected(s.Service).revision
		if label == "" {
			continue
		}
		found = append(found, Finding{
			Severity: WillLose, ConfirmedBy: []string{"no-ready-endpoint"}, When: timeline.PodsReplaced,
			Prediction: fmt.Sprintf("each rollout of %s changes the label %s of its Pods: the Service selects none of the new ones, and all requests fail once the old ones are gone", w.object(), label),
			Evidence:   []Evidence{{"Service/" + s.Service.Name, "spec.selector[" + label + "]", s.Service.Spec.Selector[label]}},
			Fix:        "leave the label out of the selector",
		})
	}
	return found
}
