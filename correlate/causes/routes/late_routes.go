// Package routes explains windows in which requests were led to Pods that had stopped: by a node, a name, an ingress or
// a load balancer.
package routes

import (
	"fmt"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// tooLateBy returns the finding of a rule that names who was too late, without its text and its fix; ok is false where
// it was not them.
func tooLateBy(c *rule.Case, name string) (f rule.Finding, s *evidence.PodStop, r evidence.Race, ok bool) {
	r = c.Routes.Race(c.Window)
	if s = r.LatestStop(); s == nil {
		return rule.No("no route was changed later than " + quantity.Span(evidence.TooLate) +
				" after it should have been"),
			nil, r, false
	}
	if s.Late() != name {
		return rule.No(fmt.Sprintf("for %s, another component was late: %s", s.Pod.Name, s.Late())), nil, r, false
	}
	v, w, p := c.Evidence, c.Window, s.Pod
	if p.Deleted != nil {
		f.For = []evidence.Sign{
			evidence.Context.Event(v.Changes.IDOf(p, timeline.PodDeleted, p.Deleted), p.Deleted, p.Name+" was deleted"),
		}
	}
	if s.Proved {
		f.For = append(f.For, evidence.Measured.Target(s.Target, &s.At, p.Name+" stopped answering new clients"))
	} else {
		f.Lack(evidence.Measured.Doubt(p.Name + " has no direct target, so its stop is only known from the watch"))
	}
	f.For = append(f.For, evidence.Watched.Event(v.Changes.IDOf(p, timeline.EndpointChanged, p.EndpointNotReady),
		p.EndpointNotReady, p.Name+" left the ready endpoints"))
	f.Measures = []model.Measure{
		{Name: evidence.LateController, Object: p.Name, Length: s.ControllerLag()},
		{Name: model.RouteLag, Object: p.Name, Node: v.Services.RouterNode(w), Length: s.Lag()},
	}
	f.Oppose(evidence.AlsoTroubled(r.Troubled, w)...)
	f.Lack(v.Addresses.Unasked(w)...)
	fresh := w
	if t := v.Traffic.Target(w); t.Kind == timeline.Reused { // where connections are kept, those that fail are more
		fresh = v.Traffic.WindowNear(t, timeline.New, w.Span())
	}
	if fresh != nil && r.MoreThanTheirShare(v.Services, fresh) {
		f.Oppose(evidence.Watched.Doubt(fmt.Sprintf("%d of %d requests failed on new connections: more than the "+
			"share of the Pods that had stopped, so more than their routes was wrong", fresh.Failed, fresh.Sent)))
	}
	f.ExplainsAtMost(w, r.Explained)
	return f, s, r, true
}
