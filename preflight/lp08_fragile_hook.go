package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

var fragileHook = Rule{
	ID: "LP08", Name: "fragile-hook", Needs: []Fact{TemplatesFact},
	ConfirmedBy: []string{"prestop-failed"}, When: timeline.PodEnds, Predicts: []string{"prestop-failed"},
	Doc: "A preStop hook that may fail, or a shell as process 1 that may not pass SIGTERM on.",
	Check: func(s *State) (found []Finding) {
		for t, c := range s.servers() {
			h := preStop(c)
			if h != nil && h.Exec != nil && len(h.Exec.Command) > 0 {
				found = append(found, Finding{
					Severity:   MayLose,
					Prediction: fmt.Sprintf("if the image has no %s, the hook fails and SIGTERM comes at once (event FailedPreStopHook); the spec does not show what is in the image", h.Exec.Command[0]),
					Evidence:   []Evidence{t.of(c, "lifecycle.preStop.exec.command", strings.Join(h.Exec.Command, " ")), t.of(c, "image", c.Image)},
					Fix:        "preStop: {sleep: {seconds: N}}, which needs nothing from the image",
				})
			}
			if h != nil && h.HTTPGet != nil && len(c.Ports) > 0 && !declares(&t.spec, h.HTTPGet.Port) {
				found = append(found, Finding{
					Severity: MayLose, Prediction: fmt.Sprintf("if nobody listens on port %s, the hook fails and SIGTERM comes at once (event FailedPreStopHook)", h.HTTPGet.Port.String()),
					Evidence: []Evidence{t.of(c, "lifecycle.preStop.httpGet.port", h.HTTPGet.Port.String()), t.of(c, "ports", "without it")},
					Fix:      "name the port that the server listens on, or use a sleep",
				})
			}
			if len(c.Command) >= 3 && isShell(c.Command[0]) && c.Command[1] == "-c" && !slices.Contains(strings.Fields(c.Command[2]), "exec") {
				found = append(found, Finding{
					Severity: MayLose, ConfirmedBy: []string{"grace-too-short"},
					Prediction: fmt.Sprintf("process 1 may be a shell, which does not pass SIGTERM on: then the server runs on until it is killed at the end of the grace period (%s), and requests in flight are cut", quantity.Span(grace(&t.spec))),
					Evidence:   []Evidence{t.of(c, "command", strings.Join(c.Command, " "))},
					Fix:        "begin the command with exec, or name the server itself as the command",
				})
			}
		}
		return found
	},
}

// declares reports whether any container declares the port.
func declares(spec *corev1.PodSpec, port intstr.IntOrString) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.StrVal && port.StrVal != "" || port.Type == intstr.Int && p.ContainerPort == port.IntVal
		})
	})
}
