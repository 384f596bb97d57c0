package evidence

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/kube/hook"
	"lapse/timeline"
)

// This file is about Pods' preStop hooks.

// hooked is a container of a Pod that has a preStop hook.
type hooked struct {
	*timeline.Container
	*timeline.Hook
}

// HooksOf returns the preStop hooks of a Pod, as far as its template is known.
func (v Templates) HooksOf(p *model.Pod) (all []hooked) {
	if t := v[p.Template]; t != nil {
		for i := range t.Containers {
			if c := &t.Containers[i]; c.PreStop != nil {
				all = append(all, hooked{c, c.PreStop})
			}
		}
	}
	return all
}

// effect returns what the hook certainly does before SIGTERM.
func (h hooked) effect() hook.Effect {
	switch {
	case h.Command != "":
		return hook.ReadScript(h.Command)
	case h.Kind == "sleep" || h.Kind == "exec":
		return hook.Effect{Serves: h.Sleep, Lasts: h.Sleep}
	}
	return hook.Effect{Unread: h.Kind}
}

// stopsServer reports whether the hook's command itself ends the server.
func (h hooked) stopsServer() bool { return h.effect().Stops != "" }

// delays returns how long the hook certainly leaves the server running.
func (h hooked) delays() time.Duration { return h.effect().Serves }

// runs names what the hook runs.
func (h hooked) runs() string {
	switch {
	case h.Command != "":
		return "`" + h.Command + "`"
	case h.Kind == "exec" && h.Sleep > 0:
		return fmt.Sprintf("`sleep %v`", h.Sleep.Seconds())
	case h.Sleep > 0:
		return "sleep " + quantity.Span(h.Sleep)
	}
	return h.Kind
}

// stoppingHook returns the Pod's hook that ends the server itself; ok is false if none is known.
func (v Templates) stoppingHook(p *model.Pod) (stopping hooked, ok bool) {
	for _, h := range v.HooksOf(p) {
		if h.stopsServer() {
			return h, true
		}
	}
	return hooked{}, false
}

// endingHook says that a Pod's hook ends its server; "" if none is known to.
func (v Templates) endingHook(p *model.Pod) string {
	h, ok := v.stoppingHook(p)
	if !ok {
		return ""
	}
	after := ", and delays nothing"
	if d := h.delays(); d > 0 {
		after = ", after " + quantity.Span(d)
	}
	return fmt.Sprintf("its preStop hook (%s) ends the server itself%s", h.runs(), after)
}

// Sleeps names the containers of a Pod, with what their hooks are: "nginx (sleeps 5 s) and php-fpm (has no hook)".
func (v Templates) Sleeps(p *model.Pod) string {
	hooks := v.HooksOf(p)
	names := v.ContainersOf(p)
	for i, name := range names {
		has := "has no hook"
		for _, h := range hooks {
			if d := h.delays(); h.Name == name && d > 0 {
				has = "sleeps " + quantity.Span(d)
			} else if h.Name == name {
				has = "has a hook that does not sleep first"
			}
		}
		names[i] = fmt.Sprintf("%s (%s)", name, has)
	}
	return quantity.Names(names)
}
