package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var wrongPods = Rule{
	ID:   "LP21",
	Name: "wrong-pods",
	Doc: "The selector takes Pods that do not listen on the Service's port, or loses its Pods with a rollout; " +
		"or no Pod has the port.",
	Needs:       []service.Fact{service.TemplatesFact},
	ConfirmedBy: []string{"failing-version"},
	Check: func(s *service.State) (found []Finding) {
		none := func(t service.Template) bool { return t.Count == service.Exactly(0) }
		all := slices.DeleteFunc(s.Selected(), none)
		for _, p := range s.Service.Spec.Ports {
			if !slices.ContainsFunc(all, func(t service.Template) bool { return t.ListensOn(p) }) {
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

// deaf returns the ports on which a template's Pods do not listen, although Pods of other templates do or should.
func deaf(s *service.State, t *service.Template, all []service.Template) (ports []string) {
	lasts := func(o service.Template) bool { return !o.Ends() }
	for _, p := range s.Service.Spec.Ports {
		target := podspec.TargetOf(p)
		if target.Type == intstr.String || t.ListensOn(p) { // without a port of that name they get no requests
			continue
		}
		listens := func(o service.Template) bool { return o.ListensOn(p) }
		if slices.ContainsFunc(all, listens) || t.Ends() && slices.ContainsFunc(all, lasts) {
			ports = append(ports, target.String())
		}
	}
	return slices.Compact(ports)
}

// notListening returns a finding about Pods that the selector takes although they do not listen on the Service's ports.
func notListening(s *service.State, t *service.Template, ports []string, all []service.Template) Finding {
	const (
		refused    = "the selector also takes %s not listen on %s: %s refused"
		undeclared = "the selector also takes %s not declare a port: " +
			"unless a server listens on %s without declaring it, %s refused"
		serversLabel = "a selector with a label that only the servers have, " +
			"or a targetPort by the name of a port that only they have"
	)
	listed, who, while := strings.Join(ports, " and "), maker(t)+"'s Pods, which do", " while they run"
	if t.Owner == "" {
		who, while = t.Object+", which does", " while it runs"
	}
	declared := portsOf(&t.Spec)
	requests := share(t.Count, service.Total(all))
	f := Finding{
		Severity:   WillLose,
		Prediction: fmt.Sprintf(refused, who, listed, requests),
		Evidence: []service.Evidence{
			s.At("spec.selector", service.LabelText(s.Service.Spec.Selector)),
			t.At("containers[*].ports", declared),
		},
		Fix: serversLabel,
	}
	switch {
	case t.Ends():
		f.Prediction += while
	case declared == "none":
		f.Severity = MayLose
		f.Prediction = fmt.Sprintf(undeclared, who, listed, requests)
	}
	return f
}

// maker names what makes a template's Pods.
func maker(t *service.Template) string {
	if c := metav1.GetControllerOf(&t.Meta); c != nil && t.Workload == nil {
		return c.Kind + "/" + c.Name
	}
	return t.Object
}

// share returns the part of all requests that some of the Pods get, with its verb.
func share(some, all service.Amount) string {
	switch {
	case !some.Known() || !all.Known() || some.Least == 0:
		return "some requests are"
	case some.Least == all.Least:
		return "all requests are"
	case all.Least%some.Least == 0:
		return fmt.Sprintf("1 in %d requests is", all.Least/some.Least)
	}
	return fmt.Sprintf("%d in %d requests are", some.Least, all.Least)
}

// portsOf lists the ports that a Pod's containers declare.
func portsOf(spec *corev1.PodSpec) string {
	var all []string
	for _, c := range podspec.Lasting(spec) {
		for _, p := range c.Ports {
			text := fmt.Sprint(p.ContainerPort)
			if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
				text += "/" + string(p.Protocol)
			}
			if p.Name != "" {
				text += " (" + p.Name + ")"
			}
			all = append(all, text)
		}
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// nobodyListens returns a finding about a port that leads to no port of any Pod. If no container has a port of that
// name, there is no endpoint. If no container declares that number, the port may still be open: where a container
// declares no port at all, that is no finding.
func nobodyListens(s *service.State, p corev1.ServicePort, all []service.Template) []Finding {
	const (
		noName = "no container has a %s named %s: " +
			"the Service has no endpoint for its port %d, and all requests to it fail"
		noNumber = "no container declares port %s: unless a server listens there without declaring it, " +
			"all requests to port %d of the Service are refused"
	)
	target := podspec.TargetOf(p)
	evidence := []service.Evidence{s.At(fmt.Sprintf("spec.ports[%d].targetPort", p.Port), target.String())}
	for _, t := range all {
		if target.Type == intstr.Int && portsOf(&t.Spec) == "none" {
			return nil
		}
		evidence = append(evidence, t.At("containers[*].ports", portsOf(&t.Spec)))
	}
	if len(all) == 0 {
		return nil
	}
	kind := "port"
	if slices.ContainsFunc(all, func(t service.Template) bool { return declares(&t.Spec, target) }) {
		kind = string(cmp.Or(p.Protocol, corev1.ProtocolTCP)) + " port"
	}
	f := Finding{
		Severity:    WillLose,
		Prediction:  fmt.Sprintf(noName, kind, target.String(), p.Port),
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

// untilRollout returns a finding about a selector with a label that a controller changes in each rollout.
func untilRollout(s *service.State) (found []Finding) {
	const loses = "each rollout of %s changes the label %s of its Pods: " +
		"the Service selects none of the new ones, and all requests fail once the old ones are gone"
	for i := range s.Workloads {
		w := &s.Workloads[i]
		label := w.Selected(s.Service).Revision
		if label == "" {
			continue
		}
		found = append(found, Finding{
			Severity:    WillLose,
			Prediction:  fmt.Sprintf(loses, w.Object(), label),
			Evidence:    []service.Evidence{s.At("spec.selector["+label+"]", s.Service.Spec.Selector[label])},
			Fix:         "leave the label out of the selector",
			ConfirmedBy: []string{"no-ready-endpoint"},
			When:        timeline.PodsReplaced,
		})
	}
	return found
}
