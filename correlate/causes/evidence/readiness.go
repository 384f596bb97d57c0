package evidence

import (
	"fmt"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is about Pods' readiness probes.

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
