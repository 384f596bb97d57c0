package preflight

import "fmt"

var applyScalesDown = Rule{
	ID: "LP22", Name: "apply-scales-down", Needs: []Fact{TemplatesFact},
	Doc:         "The manifest asks for fewer replicas than its autoscaler keeps: each apply ends Pods.",
	ConfirmedBy: []string{},
	Lacks: func(s *State) string {
		if s.Missing[EndpointsFact] == "" {
			return "a cluster does not say what the next apply will set: preflight of the manifests does"
		}
		return ""
	},
	Check: func(s *State) (found []Finding) {
		for i := range s.Workloads {
			w := &s.Workloads[i]
			a := s.scaler(w)
			if a == nil || w.Replicas == nil || *w.Replicas == 0 || int(*w.Replicas) >= a.least() {
				continue
			}
			n := int(*w.Replicas)
			found = append(found, Finding{
				Severity: MayLose,
				Prediction: fmt.Sprintf("each apply scales %s down to %d, where %s keeps %d or more: %d or more of the Pods end at once, and the others get all requests until the autoscaler has made new ones",
					w.object(), n, a.object(), a.least(), a.least()-n),
				Evidence: []Evidence{{w.object(), w.Asks, fmt.Sprint(n)}, a.evidence()},
				Fix:      "leave replicas out of the manifest (before, with client-side apply: kubectl apply edit-last-applied, and take it out there)",
			})
		}
		return found
	},
}

// resets notes where an apply takes back what an autoscaler has done, within its range.
func (s *State) resets() (notes []string) {
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if a := s.scaler(w); a != nil && w.Replicas != nil && *w.Replicas > 0 && int(*w.Replicas) >= a.least() && int(*w.Replicas) < a.Max {
			notes = append(notes, fmt.Sprintf("each apply scales %s to %d, also where %s has made more (up to %d): leave replicas out of the manifest", w.object(), *w.Replicas, a.object(), a.Max))
		}
	}
	return notes
}
