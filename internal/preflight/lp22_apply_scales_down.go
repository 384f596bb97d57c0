package preflight

import "fmt"

var applyScalesDown = Rule{
	ID:          "LP22",
	Name:        "apply-scales-down",
	Doc:         "The manifest asks for fewer replicas than its autoscaler keeps: each apply ends Pods.",
	Needs:       []Fact{TemplatesFact},
	ConfirmedBy: []string{},
	Lacks: func(s *State) string {
		if s.Missing[EndpointsFact] == "" {
			return "a cluster does not say what the next apply will set: preflight of the manifests does"
		}
		return ""
	},
	Check: func(s *State) (found []Finding) {
		const endsPods = "each apply scales %s down to %d, where %s keeps %d or more: " +
			"%d or more of the Pods end at once, and the others get all requests until the autoscaler has made new ones"
		for i := range s.Workloads {
			w := &s.Workloads[i]
			a := s.scaler(w)
			if a == nil || w.Replicas == nil || *w.Replicas == 0 || int(*w.Replicas) >= a.least() {
				continue
			}
			n := int(*w.Replicas)
			found = append(found, Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(endsPods, w.object(), n, a.object(), a.least(), a.least()-n),
				Evidence:   []Evidence{fact(w.object(), w.Asks, n), a.evidence()},
				Fix: "leave replicas out of the manifest " +
					"(before, with client-side apply: kubectl apply edit-last-applied, and take it out there)",
			})
		}
		return found
	},
}
