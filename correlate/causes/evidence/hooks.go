package evidence

import (
	"fmt"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/kube/hook"
	"lapse/timeline"
)

// This file is about Pods' preStop hooks.

// hooked is a container of a Pod that has a preStop hook.
type hooked struct {
	container string
	*timeline.Hook
}

// HooksOf returns the preStop hooks of a Pod, as far as its template is known.
func (v Templates) HooksOf(p *model.Pod) (all []hooked) {
	if t := v[p.Template]; t != nil {
		for _, c := range t.Containers {
			if c.PreStop != nil {
				all = append(all, hooked{c.Name, c.PreStop})
			}
		}
	}
	return all
}

// effect returns what the hook certainly does before SIGTERM.
func (h hooked) effect() hook.Effect {
	if h.Command == "" {
		return hook.Effect{Serves: h.Sleep, Lasts: h.Sleep}
	}
	return hook.ReadScript(h.Command)
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

// NamedHooks names what the hooks of a Pod run: " (`sleep 5`)"; "" if that is not known.
func (v Templates) NamedHooks(p *model.Pod) string {
	var all []string
	for _, h := range v.HooksOf(p) {
		all = append(all, h.runs())
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + NamedOf(all) + ")"
}

// A hookEffect says how a failed hook relates to its Pod's stop.
type hookEffect int

const (
	NotKnown hookEffect = iota
	isCause             // it was to delay the stop, and did not
	isEffect            // it stopped the server, and was killed with its container
)

// EffectOf returns how a Pod's failed hook relates to its stop. The hook did not stop the server if it was to sleep for
// longer, could not be run, or if the Pod answered after the hook had failed.
func (v *Endings) EffectOf(s *PodStop, failed *model.Event) hookEffect {
	if s.Proved && s.At.Earliest >= failed.At.Latest || strings.Contains(failed.Detail, "not found") ||
		strings.Contains(failed.Detail, "no such file") {
		return isCause
	}
	effect := NotKnown
	for _, h := range v.templates.HooksOf(s.Pod) {
		switch {
		case s.Pod.Deleted != nil && s.At.Latest-s.Pod.Deleted.Earliest < h.delays():
			effect = max(effect, isCause)
		case h.stopsServer():
			return isEffect
		default:
			return NotKnown
		}
	}
	return effect
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
