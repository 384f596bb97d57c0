package rules

import (
	"fmt"
	"time"

	"lapse/correlate/quantity"
	"lapse/internal/preflight/service"
)

var slowProxy = Rule{
	ID:          "LP19",
	Name:        "slow-proxy",
	Doc:         "kube-proxy is in ipvs mode, or waits for more than 1 s between two changes.",
	Needs:       []service.Fact{service.ProxyFact},
	ConfirmedBy: staleRoutes,
	Check: func(s *service.State) (found []Finding) {
		const late = "where endpoints change twice within %s, the second change takes effect up to that much later: " +
			"routes may outlive Pods for longer"
		config := "ConfigMap/kube-system/" + s.Proxy.ConfigMap
		if s.Proxy.Mode == "ipvs" {
			found = append(found, Finding{
				Severity: MayLose,
				Prediction: "a new connection from a port that was used just before may still go " +
					"to a Pod that has gone, even where Pods have a preStop hook: " +
					"clients with many short connections may lose some",
				Evidence: []service.Evidence{fact(config, "mode", "ipvs")},
				Fix:      "nftables mode",
			})
		}
		if s.Proxy.MinSyncPeriod > time.Second {
			period := quantity.Span(s.Proxy.MinSyncPeriod)
			found = append(found, Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(late, period),
				Evidence:   []service.Evidence{fact(config, s.Proxy.Mode+".minSyncPeriod", period)},
				Fix:        "the default of 1 s",
			})
		}
		return found
	},
}
