package rules

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"lapse/internal/preflight/service"
)

var pinnedToZone = Rule{
	ID:    "LP14",
	Name:  "pinned-to-zone",
	Doc:   "trafficDistribution keeps clients in their zone or on their node, and one has a single endpoint.",
	Needs: []service.Fact{service.EndpointsFact},
	Check: func(s *service.State) []Finding {
		const allFail = "clients in %s all use its only endpoint: when that ends, " +
			"all of their requests may fail until routes to it are gone (%s), not only a share"
		prefers := s.Service.Spec.TrafficDistribution
		if prefers == nil {
			return nil
		}
		count := map[string]int{}
		for _, e := range s.Ready() {
			place := e.Zone
			if *prefers == corev1.ServiceTrafficDistributionPreferSameNode {
				place = e.Node
			}
			if place != "" {
				count[place]++
			}
		}
		for _, place := range slices.Sorted(maps.Keys(count)) {
			if count[place] > 1 || len(count) < 2 {
				continue
			}
			return []Finding{{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(allFail, place, s.RouteLag.Words()),
				Evidence: []service.Evidence{
					s.At("spec.trafficDistribution", *prefers),
					s.At("ready endpoints in "+place, "1"),
				},
				Fix: "2 endpoints or more in each place that clients are kept to",
			}}
		}
		return nil
	},
}
