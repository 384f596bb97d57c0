package evidence

import (
	"fmt"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Templates is the Pod templates by their IDs.
type Templates map[string]*timeline.PodTemplate

// ContainersOf names the containers of a Pod that run for as long as it does, as far as its template is known.
func (v Templates) ContainersOf(p *model.Pod) (names []string) {
	if t := v[p.Template]; t != nil {
		for _, c := range t.Containers {
			names = append(names, c.Name)
		}
	}
	return names
}

// ReadinessOf returns the readiness probe of a Pod, the slowest if several containers have one; nil if there is none or
// it is not known.
func (v Templates) ReadinessOf(p *model.Pod) (slowest *timeline.Probe) {
	t := v[p.Template]
	if t == nil {
		return nil
	}
	for _, c := range t.Containers {
		if c.Readiness != nil &&
			(slowest == nil ||
				slowest.Period*time.Duration(slowest.Threshold) < c.Readiness.Period*time.Duration(
					c.Readiness.Threshold)) {
			slowest = c.Readiness
		}
	}
	return slowest
}

// AskedFor says what a Pod's readiness probe asks; nothing where that is not known.
func (v Templates) AskedFor(p *model.Pod) string {
	probe := v.ReadinessOf(p)
	switch {
	case probe != nil:
		return fmt.Sprintf(", and its readiness probe (%s) said yes", strings.TrimSpace(probe.Kind+" "+probe.Path))
	case v[p.Template] != nil:
		return ", and it has no readiness probe"
	}
	return ""
}

// AsksNetwork reports whether a probe asks over the network: it is no command.
func AsksNetwork(p *timeline.Probe) bool { return p != nil && p.Kind != "exec" }

// asked reports whether a container has a probe that asks over the network: it is a server.
func asked(c *timeline.Container) bool {
	return AsksNetwork(c.Readiness) || AsksNetwork(c.Liveness) || AsksNetwork(c.Startup)
}

// GiveGrace says how a Pod that was deleted with grace period 0 gets one.
func (v Templates) GiveGrace(p *model.Pod) string {
	if t := v[p.Template]; t != nil && t.Grace == 0 {
		return "raise terminationGracePeriodSeconds (it is 0, as where a Pod is deleted by force)"
	}
	return "delete without --force --grace-period=0"
}
