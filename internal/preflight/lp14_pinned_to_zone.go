package preflight

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

var pinnedToZone = Rule{
	ID:    "LP14",
	Name:  "pinned-to-zone",
	Doc:   "trafficDistribution keeps clients in their zone or on their node, and one has a single endpoint.",
	Needs: []Fact{EndpointsFact},
	Check: func(s *State) []Finding {
		const allFail = "clients in %s all use its only endpoint: when that ends, " +
			"all of their requests may fail until routes to it are gone (%s), not only a share"
		prefers := s.Service.Spec.TrafficDistribution
		if prefers == nil {
			return nil
		}
		count := map[string]int{}
		for _, e := range s.ready() {
			place := e.Zone
			if *prefers == corev1.ServiceTrafficDistributionPreferSameNode {
				place = e.Node
			}
			if place != "" {
				count[place]++
			}
		}
		for _, place := range sortedKeys(count) {
			if count[place] > 1 || len(count) < 2 {
				continue
			}
			return []Finding{{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(allFail, place, s.RouteLag.words()),
				Evidence: []Evidence{
					s.at("spec.trafficDistribution", *prefers),
					s.at("ready endpoints in "+place, "1"),
				},
				Fix: "2 endpoints or more in each place that clients are kept to",
			}}
		}
		return nil
	},
}
