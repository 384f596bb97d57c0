package preflight

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/internal/kube/hook"
)

// delayOf reads a container's preStop hook.
func delayOf(c *corev1.Container) hook.Effect {
	h := preStop(c)
	switch {
	case h == nil:
		return hook.Effect{}
	case h.Sleep != nil:
		return hook.Effect{Serves: seconds(h.Sleep.Seconds), Lasts: seconds(h.Sleep.Seconds)}
	case h.HTTPGet != nil:
		return hook.Effect{Unread: fmt.Sprintf("httpGet :%s%s", h.HTTPGet.Port.String(), h.HTTPGet.Path)}
	case h.Exec == nil:
		return hook.Effect{Unread: kindOf(h)}
	}
	return hook.Read(h.Exec.Command)
}

// hookText shows a container's hook as evidence.
func hookText(c *corev1.Container) string {
	h := preStop(c)
	switch {
	case h == nil:
		return "none"
	case h.Sleep != nil:
		return seconds(h.Sleep.Seconds).String()
	case h.Exec != nil:
		return strings.Join(h.Exec.Command, " ")
	}
	return delayOf(c).Unread
}

// unreadHooks lists the hooks of containers that serve, of which the spec does not show for how long the server goes
// on. It returns "" if there is none.
func unreadHooks(s *State) string {
	var all []string
	for t, c := range s.servers() {
		all = append(all, unreadHook(t, c)...)
	}
	return strings.Join(all, "; ")
}

func unreadHook(t *template, c *corev1.Container) []string {
	d := delayOf(c)
	if d.Unread == "" {
		return nil
	}
	text := fmt.Sprintf("%s, container %s: what the preStop hook does with `%s`, and for how long, cannot be read", t.object, c.Name, shown(d.Unread))
	if d.Serves > 0 {
		text += fmt.Sprintf(" (it sleeps for %s before)", quantity.Span(d.Serves))
	}
	return []string{text}
}
