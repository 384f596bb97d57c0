package preflight

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

var pinnedToZone = Rule{
	ID: "LP14", Name: "pinned-to-zone", Needs: []Fact{EndpointsFact},
	Doc: "trafficDistribution keeps clients in their zone or on their node, and one has a single endpoint.",
	Check: func(s *State) []Finding {
		prefers := s.Service.Spec.TrafficDistribution
		if prefers == nil {
			return nil
		}
		place := func(e Endpoint) string { return e.Zone }
		if *prefers == corev1.ServiceTrafficDistributionPreferSameNode {
			place = func(e Endpoint) string { return e.Node }
		}
		per := map[string]int{}
		for _, e := range s.ready() {
			if place(e) != "" {
				per[place(e)]++
			}
		}
		for _, where := range slices.Sorted(maps.Keys(per)) {
			if per[where] > 1 || len(per) < 2 {
				continue
			}
			return []Finding{{
				Severity: MayLose, Prediction: fmt.Sprintf("clients in %s all use its only endpoint: when that ends, all of their requests may fail until routes to it are gone (%s), not only a share", where, s.RouteLag.words()),
				Evidence: []Evidence{{"Service/" + s.Service.Name, "spec.trafficDistribution", *prefers}, {"Service/" + s.Service.Name, "ready endpoints in " + where, "1"}},
				Fix:      "2 endpoints or more in each place that clients are kept to",
			}}
		}
		return nil
	},
}
