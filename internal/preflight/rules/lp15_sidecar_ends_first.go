package rules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var sidecarEndsFirst = Rule{
	ID:   "LP15",
	Name: "sidecar-ends-first",
	Doc: "Of a Pod's containers with ports, one gets SIGTERM together with or before another " +
		"that may be its proxy.",
	Needs:       []service.Fact{service.TemplatesFact},
	ConfirmedBy: []string{"sidecar-first"},
	When:        timeline.PodEnds,
	Predicts:    []string{"sidecar-first"},
	Unread: func(s *service.State) string {
		var all []string
		for _, t := range s.Running() {
			for i := range t.Spec.Containers {
				if c := &t.Spec.Containers[i]; len(t.Spec.Containers) > 1 && listens(c) {
					all = append(all, unreadHook(&t, c)...)
				}
			}
		}
		return strings.Join(all, "; ")
	},
	Check: func(s *service.State) (found []Finding) {
		for _, t := range s.Running() {
			found = append(found, endsFirst(s, &t)...)
		}
		return found
	},
}

// endsFirst returns a finding if a container may end before its proxy. Requests come to the containers that the Service
// leads to: others may be behind them.
func endsFirst(s *service.State, t *service.Template) []Finding {
	const (
		gone = "when a Pod ends, %s is stopped %s before %s: if %s passes requests on to it, they fail for that time"
		fix  = "the same preStop sleep for %s, or make it a native sidecar " +
			"(an init container with restartPolicy: Always), which ends after the others"
	)
	behind := readable(t)
	unread := func(c *corev1.Container) bool { return !slices.Contains(behind, c) }
	front := slices.DeleteFunc(podspec.Serving(s.Service, &t.Spec), unread)
	for _, c := range behind {
		for _, proxy := range front {
			gap := delayOf(proxy).Serves - delayOf(c).Serves
			if gap <= 0 {
				continue
			}
			return []Finding{{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(gone, c.Name, quantity.Span(gap), proxy.Name, proxy.Name),
				Evidence: []service.Evidence{
					t.Of(proxy, "lifecycle.preStop", hookText(proxy)),
					t.Of(c, "lifecycle.preStop", hookText(c)),
				},
				Fix: fmt.Sprintf(fix, c.Name),
			}}
		}
	}
	return endTogether(t, behind)
}

// readable returns the containers that may be a proxy or behind one, if their hooks can be read.
func readable(t *service.Template) (found []*corev1.Container) {
	for i := range t.Spec.Containers {
		if c := &t.Spec.Containers[i]; listens(c) && !exportsMetrics(c) && delayOf(c).Unread == "" {
			found = append(found, c)
		}
	}
	return found
}

// endTogether returns a finding about containers that get SIGTERM at the same time, without a delay.
func endTogether(t *service.Template, behind []*corev1.Container) []Finding {
	const together = "when a Pod ends, %s get SIGTERM at the same time: " +
		"if one is a proxy of the other and exits first, requests fail although the other still serves"
	var names []string
	for _, c := range behind {
		if delayOf(c).Serves == 0 {
			names = append(names, c.Name)
		}
	}
	if len(names) < 2 {
		return nil
	}
	none := strings.Join(names, ", ") + ": none a native sidecar, none with a preStop hook that delays it"
	return []Finding{{
		Severity:   MayLose,
		Prediction: fmt.Sprintf(together, strings.Join(names, " and ")),
		Evidence:   []service.Evidence{t.At("containers", none)},
		Fix: "make the proxy a native sidecar " +
			"(an init container with restartPolicy: Always), which ends after the others",
	}}
}

// listens reports whether the spec shows a port of the container, of its own or in its probes.
func listens(c *corev1.Container) bool {
	connects := func(p *corev1.Probe) bool { return p.HTTPGet != nil || p.TCPSocket != nil || p.GRPC != nil }
	return len(c.Ports) > 0 || slices.ContainsFunc(podspec.Probes(c), connects)
}

// exportsMetrics reports whether a container only has ports for metrics, by its name or by theirs: no proxy passes
// requests on to it.
func exportsMetrics(c *corev1.Container) bool {
	if strings.HasSuffix(c.Name, "exporter") || strings.HasSuffix(c.Name, "metrics") {
		return true
	}
	return len(c.Ports) > 0 && !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
		return !strings.Contains(p.Name, "metrics") && !strings.HasPrefix(p.Name, "prom")
	})
}
