package preflight

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/correlate/quantity"
	"lapse/internal/kube/hook"
	"lapse/timeline"
)

var fragileHook = Rule{
	ID: "LP08", Name: "fragile-hook", Needs: []Fact{TemplatesFact},
	ConfirmedBy: []string{"prestop-failed"}, When: timeline.PodEnds, Predicts: []string{"prestop-failed"},
	Doc: "A preStop hook that may fail, or a shell as process 1 that may not pass SIGTERM on.",
	Check: func(s *State) (found []Finding) {
		for t, c := range s.servers() {
			h := preStop(c)
			if h != nil && h.Exec != nil && len(h.Exec.Command) > 0 && !slices.Contains(programs(c), path.Base(h.Exec.Command[0])) {
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
			command := slices.Concat(c.Command, c.Args)
			if script, _, ok := hook.Script(command); ok && len(c.Command) > 0 && !hook.PassesSIGTERM(script) {
				found = append(found, Finding{
					Severity: MayLose, ConfirmedBy: []string{"grace-too-short"},
					Prediction: fmt.Sprintf("process 1 may be a shell, which does not pass SIGTERM on: then the server runs on until it is killed at the end of the grace period (%s), and requests in flight are cut", quantity.Span(grace(&t.spec))),
					Evidence:   []Evidence{t.of(c, "command", strings.Join(command, " "))},
					Fix:        "put exec before the last command, or name the server itself as the command",
				})
			}
		}
		return found
	},
}

// programs returns the names of the programs which a container's image has, as its spec proves: its own command, and
// what its probes and its postStart hook run, without which the Pod would not run; and the one that the image is named
// for.
func programs(c *corev1.Container) (names []string) {
	commands := [][]string{c.Command}
	for _, p := range probes(c) {
		if p.Exec != nil {
			commands = append(commands, p.Exec.Command)
		}
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil && c.Lifecycle.PostStart.Exec != nil {
		commands = append(commands, c.Lifecycle.PostStart.Exec.Command)
	}
	image, _, _ := strings.Cut(path.Base(c.Image), ":")
	names = append(names, image) // nginx is in nginx
	for _, command := range commands {
		if len(command) > 0 {
			names = append(names, path.Base(command[0]))
		}
	}
	return names
}

// declares reports whether any container declares the port.
func declares(spec *corev1.PodSpec, port intstr.IntOrString) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port.StrVal && port.StrVal != "" || port.Type == intstr.Int && p.ContainerPort == port.IntVal
		})
	})
}
