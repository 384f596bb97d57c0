package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file finds what predictions are about: what happened to a Service in a run, and whether its effect would have
// been seen.

// A scorer holds predictions of one Service against a run.
type scorer struct {
	tl        *model.Timeline
	service   string            // NAMESPACE/NAME
	targets   []*model.Target   // judged, to which its requests went
	measured  bool              // requests were sent to it
	during    model.Instant     // from when until when
	incidents []*model.Incident // of these targets
	changed   []*model.Event    // when its endpoints turned ready, or were no longer
	watched   bool              // all such changes were seen
	pods      map[string]*model.Pod
}

func newScorer(tl *model.Timeline, service string) *scorer {
	s := &scorer{tl: tl, service: service, pods: map[string]*model.Pod{}, during: model.Instant{Earliest: model.Never}}
	names := map[string]bool{}
	for i := range tl.Targets {
		t := &tl.Targets[i]
		if !t.Kind.Judged() || t.Service != "" && t.Service != service {
			continue
		}
		s.targets, names[t.Name] = append(s.targets, t), true
		s.measured = s.measured || t.Sent > 0
		s.during = model.Instant{Earliest: min(s.during.Earliest, t.Measured.Earliest),
			Latest: max(s.during.Latest, t.Measured.Latest)}
	}
	for i := range tl.Incidents {
		if in := &tl.Incidents[i]; slices.ContainsFunc(in.Targets, func(t string) bool { return names[t] }) {
			s.incidents = append(s.incidents, in)
		}
	}
	s.changed, s.watched = exposure(tl, 0, service)
	behind := map[string]bool{}
	for i := range tl.Events {
		if e := &tl.Events[i]; e.Kind == timeline.EndpointChanged && e.Service == service && !e.Object.IsZero() {
			behind[e.Object.UID] = true
		}
	}
	for i := range tl.Pods {
		if p := &tl.Pods[i]; behind[p.UID] {
			s.pods[p.UID] = p
		}
	}
	return s
}

// A happening is one time that something happened which a prediction is about, with the time in which requests fail
// if it comes true.
type happening struct {
	from, to time.Duration
	over     bool // it was over when the run ended, as far as was seen
}

// aftermath is how long after something happened its failures count, if nothing shows when it was over.
const aftermath = 5 * time.Second

// disturbances says what the report says of each [timeline.Disturbance], and how it is found, in their order.
var disturbances = map[timeline.Disturbance]struct {
	happened, none string
	needs          []string // kinds that must have been watched, in addition to endpoints
	find           func(*scorer, string) []happening
}{
	timeline.PodEnds: {"a Pod with a ready endpoint was deleted", "no Pod with a ready endpoint was deleted",
		[]string{"pod"}, (*scorer).podEnds},
	timeline.PodStarts: {"a new Pod became a ready endpoint", "no new Pod became a ready endpoint",
		[]string{"pod"}, (*scorer).podStarts},
	timeline.LastEndpointGoes: {"the last ready endpoint left", "an endpoint was ready all the time", nil,
		(*scorer).emptied},
	timeline.NodeDrained: {"a Pod with a ready endpoint was evicted",
		"no Pod with a ready endpoint was evicted from its node", []string{"pod"}, (*scorer).drained},
	timeline.NodeFails: {"a node with a ready endpoint failed", "no node with a ready endpoint failed",
		[]string{"pod", "node"}, (*scorer).nodeFails},
	timeline.NodeLost: {"a node with a ready endpoint failed or was drained",
		"no node with a ready endpoint failed or was drained", []string{"pod", "node"}, (*scorer).nodeLost},
	timeline.PodsReplaced: {"a rollout replaced a Pod with a ready endpoint",
		"no rollout replaced a Pod with a ready endpoint", []string{"pod"}, (*scorer).replaced},
	timeline.LivenessFails: {"a liveness probe ended a container", "no liveness probe ended a container",
		[]string{"pod", "event"}, (*scorer).livenessFails},
	timeline.NodeWithout: {"the prober's node had no ready endpoint",
		"the prober's node had a ready endpoint all the time", []string{"pod"}, (*scorer).nodeWithout},
}

// happened returns each time when what a prediction is about happened to the Service, or why that is not known.
func (s *scorer) happened(p *timeline.Prediction) (all []happening, unknown string) {
	kind, known := disturbances[p.When]
	if !known {
		return nil, fmt.Sprintf("this version of Lapse does not know %q", p.When)
	}
	if !s.watched {
		return nil, "endpoints were not watched all the time"
	}
	lanes := model.Lanes{}
	for i := range s.tl.Events {
		lanes.Learn(&s.tl.Events[i])
	}
	for _, watch := range kind.needs {
		if lanes.Off(watch, s.service) {
			return nil, watch + "s were not watched"
		}
	}
	if len(kind.needs) > 0 && len(s.pods) == 0 {
		return nil, "no Pod of the Service was seen"
	}
	return kind.find(s, p.Node), ""
}

// hidden says why a cause would not have been seen if what happened had led to it; "" if it would.
func (s *scorer) hidden(h happening) string {
	span := model.Instant{Earliest: h.from, Latest: h.to}
	switch {
	case h.from < s.during.Earliest:
		return "that began before it was measured"
	case !h.over || h.to > s.during.Latest:
		return "the run ended too soon after it"
	}
	for _, in := range s.incidents {
		if (model.Instant{Earliest: in.Start.Earliest, Latest: in.End.Latest}).Overlaps(span) && s.hides(in) {
			return fmt.Sprintf("incident %d could hide it", in.ID)
		}
	}
	for _, t := range s.targets {
		unobserved := time.Duration(0)
		for _, u := range s.tl.Unobserved {
			if u.Target == t.Name {
				unobserved += max(0, min(u.End, h.to)-max(u.Start, h.from))
			}
		}
		if float64(unobserved) > (1-s.tl.MinCoverage())*float64(h.to-h.from) {
			return "too little was observed meanwhile"
		}
	}
	return ""
}

// hides reports whether a further cause could go unseen in an incident: all requests failed for a while, or it is not
// known why.
func (s *scorer) hides(in *model.Incident) bool {
	return slices.ContainsFunc(in.Causes, func(c model.IncidentCause) bool {
		return unsure(c.Confidence) || c.Rule == model.Unexplained
	}) ||
		slices.ContainsFunc(s.tl.Windows, func(w model.Window) bool {
			return (w.Kind == model.Outage || w.Blackout != nil) && slices.Contains(in.Windows, w.ID)
		})
}

// podEnds returns the ends of Pods that were ready endpoints, each from the request for it until nothing was left of
// the Pod.
func (s *scorer) podEnds(string) []happening { return s.endsOf(func(*model.Pod) bool { return true }) }

func (s *scorer) endsOf(those func(*model.Pod) bool) (all []happening) {
	counted := map[string]bool{}
	for _, e := range s.changed {
		p := s.pods[e.Object.UID]
		if !cluster.IsReady(e.From) || p == nil || p.Deleted == nil || !p.Deleted.Bounded() || counted[p.UID] ||
			!those(p) {
			continue
		}
		counted[p.UID] = true
		h := happening{from: p.Deleted.Earliest}
		for _, at := range []*model.Instant{p.Exited, p.Gone, p.EndpointNotReady} {
			if at != nil && at.Bounded() {
				h.to, h.over = max(h.to, at.Latest), h.over || at != p.EndpointNotReady
			}
		}
		all = append(all, h)
	}
	return all
}

func (s *scorer) drained(node string) []happening {
	return s.endsOf(func(p *model.Pod) bool { return (node == "" || p.Node == node) && p.Ending.LeftNode() })
}

func (s *scorer) replaced(string) []happening {
	return s.endsOf(func(p *model.Pod) bool { return p.Ending != nil && p.Ending.By == model.ByRollout })
}

func (s *scorer) podStarts(string) (all []happening) {
	for _, e := range s.changed {
		if p := s.pods[e.Object.UID]; cluster.IsReady(e.To) && p != nil && p.Created != nil && p.Created.Bounded() {
			all = append(all, after(e.At))
		}
	}
	return all
}

// after returns something that happened then.
func after(at model.Instant) happening { return happening{at.Earliest, at.Latest + aftermath, true} }

// emptied returns the times in which no endpoint was ready, after one had been.
func (s *scorer) emptied(string) (all []happening) {
	for _, of := range s.tl.Services {
		if of.Name != s.service {
			continue
		}
		for i, step := range of.Endpoints {
			switch {
			case step.Ready > 0 && len(all) > 0 && !all[len(all)-1].over:
				all[len(all)-1].to, all[len(all)-1].over = step.At.Latest, true
			case step.Ready == 0 && i > 0 && of.Endpoints[i-1].Ready > 0 && step.At.Bounded():
				all = append(all, happening{from: step.At.Earliest, to: step.At.Latest})
			}
		}
	}
	return all
}

func (s *scorer) nodeFails(node string) (all []happening) {
	hosts := map[string]bool{}
	for _, p := range s.pods {
		hosts[p.Node] = true
	}
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.Kind == timeline.NodeReady && e.From == "true" && e.To != "true" &&
			hosts[e.Object.Name] && (node == "" || e.Object.Name == node) {
			all = append(all, after(e.At))
		}
	}
	return all
}

func (s *scorer) nodeLost(node string) []happening {
	return slices.Concat(s.nodeFails(node), s.drained(node))
}

func (s *scorer) livenessFails(string) (all []happening) {
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.Kind == timeline.KubeEvent && e.To == "Killing" && strings.Contains(e.Detail, "failed liveness probe") &&
			s.pods[e.Object.UID] != nil && e.At.Bounded() {
			all = append(all, after(e.At))
		}
	}
	return all
}

// nodeWithout returns the times in which a prober's node had no ready endpoint.
func (s *scorer) nodeWithout(string) (all []happening) {
	probers := map[string]bool{}
	for _, t := range s.targets {
		if t.Node != "" {
			probers[t.Node] = true
		}
	}
	for node := range probers {
		all = append(all, s.withoutOn(node)...)
	}
	return all
}

func (s *scorer) withoutOn(node string) (all []happening) {
	ready := map[string]bool{} // UIDs of Pods on the node
	since := s.during.Earliest
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.Kind != timeline.EndpointChanged || e.Service != s.service ||
			s.pods[e.Object.UID] == nil || s.pods[e.Object.UID].Node != node {
			continue
		}
		before := len(ready)
		if delete(ready, e.Object.UID); cluster.IsReady(e.To) {
			ready[e.Object.UID] = true
		}
		switch {
		case before == 0 && len(ready) > 0 && e.At.Bounded() && e.At.Earliest > since:
			all = append(all, happening{since, e.At.Latest, true})
		case before > 0 && len(ready) == 0:
			since = e.At.Earliest
		}
	}
	if len(ready) == 0 && since < s.during.Latest {
		all = append(all, happening{since, s.during.Latest, true})
	}
	return all
}

func unsure(c model.Confidence) bool { return !sure(c) }

// sure reports whether a confidence is enough to confirm a prediction.
func sure(c model.Confidence) bool { return c == model.Medium || c == model.High }
