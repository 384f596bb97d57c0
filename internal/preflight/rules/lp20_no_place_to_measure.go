package rules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"lapse/internal/preflight/service"
)

var noPlaceToMeasure = Rule{
	ID:    "LP20",
	Name:  "no-place-to-measure",
	Doc:   "The Job of lapse run could only be on the node to drain, which would end the run.",
	Needs: []service.Fact{service.NodesFact},
	Check: func(s *service.State) []Finding {
		const ends = "no other node than %s takes the Job of lapse run: the drain would end the run"
		if s.Node == "" {
			return nil
		}
		others, refuse := othersRefuse(s, s.Node, &corev1.PodSpec{})
		if !refuse {
			return nil
		}
		return []Finding{{
			Severity:   Blind,
			Prediction: fmt.Sprintf(ends, s.Node),
			Evidence:   []service.Evidence{others},
			Fix:        "uncordon or add a node, or measure from a machine outside: lapse run http://…",
		}}
	},
}
