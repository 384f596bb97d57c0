package rules

import (
	"fmt"
	"maps"
	"slices"

	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var noBudget = Rule{
	ID:    "LP03",
	Name:  "no-budget",
	Doc:   "A node has 2 endpoints or more and no PodDisruptionBudget holds them: a drain evicts them together.",
	Needs: []service.Fact{service.EndpointsFact, service.BudgetsFact, service.TemplatesFact},
	When:  timeline.NodeDrained,
	Check: func(s *service.State) []Finding {
		const together = "a drain of %s evicts %d of %d ready endpoints at once, " +
			"and leaves %d until new ones are ready"
		if s.Covered() {
			return nil
		}
		n, nodes := len(s.Ready()), s.ByNode()
		for _, node := range slices.Sorted(maps.Keys(nodes)) {
			k := nodes[node]
			if k < 2 || s.Node != "" && node != s.Node {
				continue
			}
			var confirmed []string // with an endpoint left, that is no failure
			if k == n {
				confirmed = []string{"no-ready-endpoint/node-drained"}
			}
			return []Finding{{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(together, node, k, n, n-k),
				Evidence: []service.Evidence{
					fact("Node/"+node, "ready endpoints", fmt.Sprintf("%d of %d", k, n)),
					fact("PodDisruptionBudgets", "that cover the Service's Pods", "none"),
				},
				Fix:         "a PodDisruptionBudget of maxUnavailable: 1 for the Pods' labels",
				ConfirmedBy: confirmed,
				Node:        node,
			}}
		}
		return nil
	},
}
