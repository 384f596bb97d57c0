package empty

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// port-switch: the Service's targetPort was changed to one on which Pods do not serve. Their endpoints move with it
// at once, all of them. Or the port that is asked was taken away: then every request fails, and the endpoints stay as
// they are.
//
//	service      → 8080            → 8081
//	endpoints    R R R R R R R R   R R R R R R     as many as before
//	new          ok ok ok ok ok    x x x x x x
//	direct 8081                    x x x x x x     from the first request on
//	reused       ok ok ok ok ok    ok ok ok ok     on connections that were there before

var PortSwitch = rule.Rule{
	Name:  "port-switch",
	Doc:   "The Service's port was taken away, or its targetPort was changed to one on which its Pods did not serve.",
	Needs: []rule.Need{rule.EndpointSlices, rule.EndpointsWatched, rule.RequestsFailed},
	Only:  func(c *rule.Case) bool { return c.Services.Changed(c.Window, evidence.PortsEdited) != nil },
	Test:  testPortSwitch,
}

func testPortSwitch(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	change := v.Services.Changed(w, evidence.PortsEdited)
	if port := ownPort(v.Traffic.Target(w)); hasPort(change.From, port) && !hasPort(change.To, port) {
		return portGone(v, w, change, port)
	}
	moved := movedWith(v, w, change)
	failing := v.Suspects.That(w, func(s evidence.Suspect) bool {
		first := v.Traffic.Measured(v.Traffic.Targets[s.Target]).FirstLast.FirstOK
		return v.Traffic.TargetNamed(s.Target).Addr.Port() == moved[s.Pod.UID].to &&
			(first == nil || first.Done > s.Outage.End.Earliest)
	})
	if len(failing) == 0 {
		return rule.No("no Pod failed from the first request on at the port that the Service was changed to")
	}
	pods := evidence.SuspectPods(failing)
	ports := moved[pods[0].UID]
	f := rule.Finding{
		Text: fmt.Sprintf("the Service was changed to send to port %d in the place of %d (%s), and %s did not serve "+
			"there: %s %s",
			ports.to, ports.from, quantity.Clock(v.Run, change.At.Latest), quantity.PodNames(pods), pods[0].Name,
			v.Suspects.FailedHow(failing[0])),
		Fix: fmt.Sprintf("let the Pods serve on port %d before the Service sends to it, or give targetPort the name "+
			"of a container port, which each Pod resolves for itself", ports.to),
		For: []evidence.Sign{evidence.Watched.Seen(change, fmt.Sprintf("the Service's port was changed: %s, then %s",
			change.From, change.To))},
	}
	for i := range failing { // whatever was routed there failed, also before its own address was first asked
		failing[i].From, failing[i].Until = change.At.Earliest, max(failing[i].Until, w.End.Latest)
	}
	rule.Accuse(v, w, failing, &f)
	f.For = append(f.For, evidence.Mention(keptWell(v, w)...)...)
	if classes := failing[0].Outage.Classes; 2*evidence.Count(classes, timeline.HTTP4xx,
		timeline.HTTP5xx) > failing[0].Outage.Failed {
		f.Lack(evidence.Measured.Doubt(fmt.Sprintf("it answered there, with errors: whether it would have "+
			"answered well on port %d is not known", ports.from)))
	}
	for _, p := range v.Services.Pods(w) {
		if !slices.Contains(pods, p) && p.Template == pods[0].Template && answeredAt(v, w, p, ports.to) {
			f.Oppose(evidence.Watched.Doubt(p.Name + ", of the same version, answered on that port"))
			break
		}
	}
	return f
}

// portGone returns the finding that the Service no longer has the port that is asked.
func portGone(v *evidence.Evidence, w *model.Window, change *model.Event, port string) rule.Finding {
	if w.Share < evidence.NearlyAll {
		return rule.No("some requests were answered: the Service still had port " + port)
	}
	at := quantity.Clock(v.Run, change.At.Latest)
	return rule.Finding{
		Text: fmt.Sprintf("port %s was taken from the Service (%s): it was %s, and then %s", port, at, change.From,
			change.To),
		Fix: fmt.Sprintf("keep port %s next to the new one while clients need it: a Service can have several; it "+
			"was taken at %s", port, at),
		For: []evidence.Sign{
			evidence.Watched.Seen(change, fmt.Sprintf("the Service's port was changed: %s, then %s", change.From,
				change.To)),
			evidence.Watched.Target(w.Target, &w.Start, "every request began to fail: "+
				quantity.ClassCounts(w.Classes)),
		},
	}
}

// ownPort returns the port of the Service that a target asks.
func ownPort(t *model.Target) string {
	u, err := url.Parse(t.URL)
	if err != nil || t.Route != "" && t.Route != "clusterip" {
		return ""
	}
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// hasPort reports whether a Service has a port, by the detail of its change: "80/TCP → 8080, 443/TCP → 8443".
func hasPort(ports, port string) bool {
	return port != "" && slices.ContainsFunc(strings.Split(ports, ", "), func(p string) bool {
		return strings.HasPrefix(p, port+"/")
	})
}

// A portMove is the move of an endpoint from one port to another.
type portMove struct{ from, to uint16 }

// movedWith returns the endpoints that moved with a change of the Service, by the UID of their Pod.
func movedWith(v *evidence.Evidence, w *model.Window, change *model.Event) map[string]portMove {
	moved := map[string]portMove{}
	for _, e := range v.Services.Service(w).Endpoints {
		if !v.Services.Moves[e.ID] || (e.Seen-change.Seen).Abs() > cluster.WatchLag {
			continue
		}
		m := moved[e.Object.UID]
		if cluster.IsReady(e.From) {
			m.from = e.Port
		} else {
			m.to = e.Port
		}
		moved[e.Object.UID] = m
	}
	return moved
}

// keptWell returns the evidence that requests on older connections went on being answered.
func keptWell(v *evidence.Evidence, w *model.Window) []model.Evidence {
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Kind != timeline.Reused || t.Name == w.Target || !v.Traffic.ShareRoutes(t, v.Traffic.Target(w)) {
			continue
		}
		if answered, sent := v.Answered(t.ID, w.Start.Latest, w.End.Earliest); sent > 0 && answered == sent {
			return []model.Evidence{{Target: t.Name,
				Text: "requests on connections that were there before were answered"}}
		}
	}
	return nil
}

// answeredAt reports whether a Pod answered well on a port within a window.
func answeredAt(v *evidence.Evidence, w *model.Window, p *model.Pod, port uint16) bool {
	return slices.ContainsFunc(v.Addresses.DirectOf(w, p), func(t *model.Target) bool {
		first := v.Traffic.Measured(t).FirstLast.FirstOK
		return t.Addr.Port() == port && first != nil && first.Done <= w.End.Earliest
	})
}
