package rules

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/internal/kube/hook"
	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
)

// delayOf returns what a container's preStop hook does before SIGTERM comes.
func delayOf(c *corev1.Container) hook.Effect { return podspec.Effect(podspec.PreStop(c)) }

// hookText shows a container's hook as evidence.
func hookText(c *corev1.Container) string {
	h := podspec.PreStop(c)
	switch {
	case h == nil:
		return "none"
	case h.Sleep != nil:
		return podspec.Seconds(h.Sleep.Seconds).String()
	case h.Exec != nil:
		return strings.Join(h.Exec.Command, " ")
	}
	return podspec.Effect(h).Unread
}

// unreadHooks lists the hooks of containers that serve, if the spec does not show how long the server goes on. It
// returns "" if there is none.
func unreadHooks(s *service.State) string {
	var all []string
	for t, c := range s.Servers() {
		all = append(all, unreadHook(t, c)...)
	}
	return strings.Join(all, "; ")
}

func unreadHook(t *service.Template, c *corev1.Container) []string {
	const unread = "%s, container %s: what the preStop hook does with `%s`, and for how long, cannot be read"
	d := delayOf(c)
	if d.Unread == "" {
		return nil
	}
	text := fmt.Sprintf(unread, t.Object, c.Name, service.Shown(d.Unread))
	if d.Serves > 0 {
		text += fmt.Sprintf(" (it sleeps for %s before)", quantity.Span(d.Serves))
	}
	return []string{text}
}
