package rules

import (
	"fmt"

	"lapse/internal/preflight/service"
)

var applyScalesDown = Rule{
	ID:          "LP22",
	Name:        "apply-scales-down",
	Doc:         "The manifest asks for fewer replicas than its autoscaler keeps: each apply ends Pods.",
	Needs:       []service.Fact{service.TemplatesFact},
	ConfirmedBy: []string{},
	Lacks: func(s *service.State) string {
		if s.Missing[service.EndpointsFact] == "" {
			return "a cluster does not say what the next apply will set: preflight of the manifests does"
		}
		return ""
	},
	Check: func(s *service.State) (found []Finding) {
		const endsPods = "each apply scales %s down to %d, where %s keeps %d or more: " +
			"%d or more of the Pods end at once, and the others get all requests until the autoscaler has made new ones"
		for i := range s.Workloads {
			w := &s.Workloads[i]
			a := s.Scaler(w)
			if a == nil || w.Replicas == nil || *w.Replicas == 0 || int(*w.Replicas) >= a.Least() {
				continue
			}
			n := int(*w.Replicas)
			found = append(found, Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(endsPods, w.Object(), n, a.Object(), a.Least(), a.Least()-n),
				Evidence:   []service.Evidence{fact(w.Object(), w.Asks, n), a.Evidence()},
				Fix: "leave replicas out of the manifest " +
					"(before, with client-side apply: kubectl apply edit-last-applied, and take it out there)",
			})
		}
		return found
	},
}
