package routes

import (
	"fmt"

	"lapse/correlate/causes/evidence"
	"lapse/timeline"
)

// unseenEnds returns a doubt for each Pod of several containers whose ends the run did not see: a kubelet tells them
// together, when the last one has ended. Until then one of them may have stopped while the server went on, and nothing
// tells which. An error that a proxy answers does.
func unseenEnds(r *evidence.Race, v *evidence.Evidence) (missing []evidence.Sign) {
	for _, s := range r.Stops {
		t := v.Templates[s.Pod.Template]
		if t == nil || len(t.Containers) < 2 || len(v.Changes.Ends[s.Pod.UID]) > 0 || !mayServe(t) ||
			r.As[s].Most() == evidence.AnswersErrors {
			continue
		}
		missing = append(missing, evidence.Measured.Doubt(fmt.Sprintf(
			"%s has %d containers, and the run ended before its kubelet said how they ended: which of them had "+
				"stopped is not known",
			s.Pod.Name, len(t.Containers))))
	}
	return missing
}

// mayServe reports whether one of the containers is a server, as a probe over the network says.
func mayServe(t *timeline.PodTemplate) bool {
	for _, c := range t.Containers {
		if evidence.AsksNetwork(c.Readiness) || evidence.AsksNetwork(c.Liveness) || evidence.AsksNetwork(c.Startup) {
			return true
		}
	}
	return false
}
