package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/correlate/quantity"
	"lapse/internal/kube/hook"
	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var fragileHook = Rule{
	ID:          "LP08",
	Name:        "fragile-hook",
	Doc:         "A preStop hook that may fail, or a shell as process 1 that may not pass SIGTERM on.",
	Needs:       []service.Fact{service.TemplatesFact},
	AboutPods:   true,
	ConfirmedBy: []string{"prestop-failed"},
	When:        timeline.PodEnds,
	Predicts:    []string{"prestop-failed"},
	Check: func(s *service.State) (found []Finding) {
		for t, c := range s.Servers() {
			for _, check := range fragile {
				if f, ok := check(t, c); ok {
					found = append(found, f)
				}
			}
		}
		return found
	},
}

var fragile = []func(*service.Template, *corev1.Container) (Finding, bool){noProgram, noPort, shellFirst}

// noProgram returns a finding about a hook whose program may be missing in the image.
func noProgram(t *service.Template, c *corev1.Container) (Finding, bool) {
	const missing = "if the image has no %s, the hook fails and SIGTERM comes at once (event FailedPreStopHook); " +
		"the spec does not show what is in the image"
	h := podspec.PreStop(c)
	if h == nil || h.Exec == nil || len(h.Exec.Command) == 0 {
		return Finding{}, false
	}
	program := h.Exec.Command[0]
	if slices.Contains(programs(c), path.Base(program)) {
		return Finding{}, false
	}
	return Finding{
		Severity:   MayLose,
		Prediction: fmt.Sprintf(missing, program),
		Evidence: []service.Evidence{
			t.Of(c, "lifecycle.preStop.exec.command", strings.Join(h.Exec.Command, " ")),
			t.Of(c, "image", c.Image),
		},
		Fix: "preStop: {sleep: {seconds: N}}, which needs nothing from the image",
	}, true
}

// noPort returns a finding about a hook that asks a port which no container declares.
func noPort(t *service.Template, c *corev1.Container) (Finding, bool) {
	const closed = "if nobody listens on port %s, the hook fails and SIGTERM comes at once (event FailedPreStopHook)"
	h := podspec.PreStop(c)
	if h == nil || h.HTTPGet == nil || len(c.Ports) == 0 || declares(&t.Spec, h.HTTPGet.Port) {
		return Finding{}, false
	}
	port := h.HTTPGet.Port.String()
	return Finding{
		Severity:   MayLose,
		Prediction: fmt.Sprintf(closed, port),
		Evidence:   []service.Evidence{t.Of(c, "lifecycle.preStop.httpGet.port", port), t.Of(c, "ports", "without it")},
		Fix:        "name the port that the server listens on, or use a sleep",
	}, true
}

// shellFirst returns a finding about a shell as process 1.
func shellFirst(t *service.Template, c *corev1.Container) (Finding, bool) {
	const keeps = "process 1 may be a shell, which does not pass SIGTERM on: " +
		"then the server runs on until it is killed at the end of the grace period (%s), and requests in flight are cut"
	command := slices.Concat(c.Command, c.Args)
	script, _, ok := hook.Script(command)
	if !ok || len(c.Command) == 0 || hook.PassesSIGTERM(script) {
		return Finding{}, false
	}
	return Finding{
		Severity:    MayLose,
		Prediction:  fmt.Sprintf(keeps, quantity.Span(podspec.Grace(&t.Spec))),
		Evidence:    []service.Evidence{t.Of(c, "command", strings.Join(command, " "))},
		Fix:         "put exec before the last command, or name the server itself as the command",
		ConfirmedBy: []string{"grace-too-short"},
	}, true
}

// programs returns the names of the programs that a container's image surely has: its own command, and what its probes
// and its postStart hook run, without which the Pod would not run; and the program that the image is named for.
func programs(c *corev1.Container) (names []string) {
	commands := [][]string{c.Command}
	for _, p := range podspec.Probes(c) {
		if p.Exec != nil {
			commands = append(commands, p.Exec.Command)
		}
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil && c.Lifecycle.PostStart.Exec != nil {
		commands = append(commands, c.Lifecycle.PostStart.Exec.Command)
	}
	image, _, _ := strings.Cut(path.Base(c.Image), "@")
	image, _, _ = strings.Cut(image, ":")
	names = append(names, image) // the image nginx has the program nginx
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
			if port.Type == intstr.Int {
				return p.ContainerPort == port.IntVal
			}
			return port.StrVal != "" && p.Name == port.StrVal
		})
	})
}
