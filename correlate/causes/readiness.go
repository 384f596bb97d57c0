package causes

import (
	"fmt"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is what several rules ask of the readiness probe of a Pod.

// readinessOf is the readiness probe of a Pod, the slowest if several containers have one; nil if there is none or it
// is not known.
func (v *index) readinessOf(p *model.Pod) (slowest *timeline.Probe) {
	t := v.templates[p.Template]
	if t == nil {
		return nil
	}
	for _, c := range t.Containers {
		if c.Readiness != nil && (slowest == nil || slowest.Period*time.Duration(slowest.Threshold) < c.Readiness.Period*time.Duration(c.Readiness.Threshold)) {
			slowest = c.Readiness
		}
	}
	return slowest
}

// askedFor says what a Pod's readiness probe asks; nothing where that is not known.
func (v *index) askedFor(p *model.Pod) string {
	probe := v.readinessOf(p)
	switch {
	case probe != nil:
		return fmt.Sprintf(", and its readiness probe (%s) said yes", strings.TrimSpace(probe.Kind+" "+probe.Path))
	case v.templates[p.Template] != nil:
		return ", and it has no readiness probe"
	}
	return ""
}
