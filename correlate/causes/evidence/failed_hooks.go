package evidence

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is about preStop hooks that failed.

// A FailedHook is a preStop hook that failed, of a Pod that stopped.
type FailedHook struct {
	*model.Event
	Stop *PodStop
	Runs string // what it runs: " (`sleep 5`)"; "" if that is not known

	Unclear bool // whether it was to delay the stop is not known
	MayEnd  bool // nor is whether it ended the server itself: then it failed because it was killed with its container
	// another container that may be the one that serves, and that did not wait for this hook; "" if there is none
	Beside string
}

// failedHook returns the Pod's preStop hook that failed, rather one whose container surely serves. It returns nil if
// none failed, or if the Pod would have stopped as early had it not failed.
func (v *Endings) failedHook(s *PodStop) (found *FailedHook) {
	for _, e := range v.changes.About[s.Pod.UID] {
		if e.Kind != timeline.KubeEvent || !strings.EqualFold(e.To, "FailedPreStopHook") {
			continue
		}
		hooks := v.templates.hooksIn(s.Pod, e.Container)
		effect := effectOf(s, e, hooks)
		if effect == noCause {
			continue
		}
		h := &FailedHook{Event: e, Stop: s, Runs: named(hooks), Unclear: effect != isCause, MayEnd: effect == mayStop,
			Beside: v.templates.undelayed(s, hooks)}
		if h.Beside == "" {
			return h
		}
		found = cmp.Or(found, h)
	}
	return found
}

// hooksIn returns the preStop hook of a container of a Pod; those of all its containers if it is not known which.
func (v Templates) hooksIn(p *model.Pod, container string) []hooked {
	all := v.HooksOf(p)
	for i := range all {
		if all[i].Name == container {
			return all[i : i+1]
		}
	}
	return all
}

// named names what hooks run: " (`sleep 5`)"; "" if there is none.
func named(hooks []hooked) string {
	var all []string
	for _, h := range hooks {
		all = append(all, h.runs())
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + quantity.Names(all) + ")"
}

// A hookEffect says how a failed hook relates to its Pod's stop.
type hookEffect int

const (
	isCause  hookEffect = iota // it was to delay the stop, and did not
	noCause                    // it stops the server itself, delays nothing, or failed when its delay was over
	mayDelay                   // it did not stop the server, and what it was to do is not known
	mayStop                    // it may have stopped the server, and been killed with its container
)

// effectOf returns how a failed hook, which is one of these, relates to its Pod's stop. The hook did not stop the
// server if it could not be run, or if the Pod answered after the hook had failed. If it is not known what such a hook
// runs, it is taken for one that was to delay the stop.
func effectOf(s *PodStop, failed *model.Event, hooks []hooked) hookEffect {
	notKnown := mayStop
	if s.Proved && s.At.Earliest >= failed.At.Latest || strings.Contains(failed.Detail, "not found") ||
		strings.Contains(failed.Detail, "no such file") {
		notKnown = mayDelay
	}
	if len(hooks) == 0 && notKnown == mayDelay {
		return isCause
	}
	var effects []hookEffect
	for _, h := range hooks {
		switch effect := h.effect(); {
		case s.before(h) || s.sinceDeletion(failed.At) < effect.Serves:
			effects = append(effects, isCause)
		case effect.Unread == "":
			effects = append(effects, noCause)
		default:
			effects = append(effects, notKnown)
		}
	}
	if effects = slices.Compact(effects); len(effects) == 1 {
		return effects[0]
	}
	return notKnown
}

// before reports whether the Pod stopped sooner after its deletion than a hook, if it works, lets its server stop.
func (s *PodStop) before(h hooked) bool { return s.sinceDeletion(s.At) < h.delays() }

// sinceDeletion returns how long after the Pod's deletion something was at most.
func (s *PodStop) sinceDeletion(at model.Instant) time.Duration {
	if s.Pod.Deleted == nil {
		return model.Never
	}
	return at.Latest - s.Pod.Deleted.Earliest
}

// undelayed returns a container that may be the one that serves, and that no hook kept running until the Pod stopped,
// beside that of a failed hook, which is one of these; "" if there is none. Native sidecars end after the others.
// Beside a container with a probe over the network, one without is taken for no server.
func (v Templates) undelayed(s *PodStop, failed []hooked) string {
	t := v[s.Pod.Template]
	if t == nil || len(failed) == 0 {
		return ""
	}
	own := failed[0].Container
	if len(failed) > 1 {
		own = &timeline.Container{} // any of them
	}
	for i := range t.Containers {
		c := &t.Containers[i]
		kept := c.PreStop != nil && s.before(hooked{c, c.PreStop})
		if c.Name != own.Name && !c.Sidecar && !kept && (own.Sidecar || !asked(own) || asked(c)) {
			return c.Name
		}
	}
	return ""
}
