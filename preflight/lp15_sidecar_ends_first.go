package preflight

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"lapse/timeline"
)

var sidecarEndsFirst = Rule{
	ID: "LP15", Name: "sidecar-ends-first", Needs: []Fact{TemplatesFact},
	ConfirmedBy: []string{"sidecar-first"}, When: timeline.PodEnds, Predicts: []string{"sidecar-first"},
	Doc: "A Pod has several containers with ports that get SIGTERM together: one may be a proxy of the other.",
	Check: func(s *State) (found []Finding) {
		for _, t := range s.running() {
			var names []string
			for i := range t.spec.Containers {
				if c := &t.spec.Containers[i]; listens(c) && preStop(c) == nil {
					names = append(names, c.Name)
				}
			}
			if len(names) < 2 {
				continue
			}
			found = append(found, Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf("when a Pod ends, %s get SIGTERM at the same time: if one is a proxy of the other and exits first, requests fail although the other still serves", strings.Join(names, " and ")),
				Evidence:   []Evidence{t.at("containers", strings.Join(names, ", ")+": none a native sidecar, none with a preStop hook")},
				Fix:        "make the proxy a native sidecar (an init container with restartPolicy: Always), which ends after the others",
			})
		}
		return found
	},
}

// listens reports whether the spec shows a port of the container, of its own or in its probes.
func listens(c *corev1.Container) bool {
	p := c.ReadinessProbe
	return len(c.Ports) > 0 || p != nil && (p.HTTPGet != nil || p.TCPSocket != nil || p.GRPC != nil)
}
