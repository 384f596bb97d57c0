package causes

import (
	"fmt"

	"lapse/timeline"
)

// unseenEnds returns a doubt for each Pod of several containers whose ends the run did not see: a kubelet tells them
// together, when the last one has ended. Until then one of them may have stopped while the server went on, and nothing
// tells which. An error that a proxy answers does.
func (r *race) unseenEnds(v *index) (missing []Sign) {
	for _, s := range r.stops {
		t := v.templates[s.pod.Template]
		if t == nil || len(t.Containers) < 2 || len(v.ends[s.pod.UID]) > 0 || !mayServe(t) || r.as[s].most() == answersErrors {
			continue
		}
		missing = append(missing, doubt(Measured, fmt.Sprintf(
			"%s has %d containers, and the run ended before its kubelet said how they ended: which of them had stopped is not known",
			s.pod.Name, len(t.Containers))))
	}
	return missing
}

// mayServe reports whether one of the containers is a server, as a probe over the network says.
func mayServe(t *timeline.PodTemplate) bool {
	for _, c := range t.Containers {
		if asksNetwork(c.Readiness) || asksNetwork(c.Liveness) || asksNetwork(c.Startup) {
			return true
		}
	}
	return false
}
