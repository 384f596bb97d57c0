package routes

import (
	"fmt"
	"slices"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// ingress-lag: a proxy before the Pods, as an ingress, went on sending requests to a Pod that had stopped, and
// answered them with errors of its own. The nodes' routes may have followed long before.
//
//	url            ok ok 503 ok 503 ok t ok 503 ok ok ok     without a Pod's name; t: it waits too long for the Pod
//	endpoint       R  R  T   T  -
//	web.shop       ok ok ok  ok ok  ok ok ok ok  ok ok ok    if the Service is measured too

var IngressLag = rule.Rule{
	Name: "ingress-lag",
	Doc: "An ingress, or another proxy behind the URL, had not followed yet when a Pod stopped: it answered with " +
		"errors of its own.",
	Needs: []rule.Need{rule.PodsWatched, rule.RequestsFailed},
	Only:  func(c *rule.Case) bool { return c.Services.Outside(c.Window) != "" },
	Test:  testIngressLag,
}

// byProxy are classes of requests that a proxy fails besides: it waits for the Pod for longer than the client does;
// or it closes the client's connection without an answer, as HAProxy does where it was not the connection's first
// request.
var byProxy = []timeline.Class{timeline.TimeoutResponse, timeline.EOF, timeline.Reset}

func testIngressLag(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	unnamed := v.Traffic.AnsweredByNobody(w)
	switch {
	case unnamed == 0:
		return rule.No("no request was answered with an error that names no Pod")
	case len(w.Backends) == 0:
		return rule.No(
			"good answers do not name their Pods, so that an error of a proxy's own cannot be told from a Pod's")
	}
	if empty, _ := c.Addresses.EmptyIn(c.Window); empty != nil {
		return rule.No("the Service had no endpoint to send requests to")
	}
	stops := slices.DeleteFunc(v.Endings.Stopped(w), func(s *evidence.PodStop) bool { return !ledTo(v, w, s.Pod) })
	if len(stops) == 0 {
		return rule.No("no Pod of the Service that good answers come from is known to have stopped as requests " +
			"began to fail")
	}
	s := stops[0]
	lag := v.Endings.FollowedLate(w, s)
	f := rule.Finding{
		Text: fmt.Sprintf("what leads requests from %s to the Pods still sent some to %s for %s after it had "+
			"stopped, and answered itself: %s of class http_5xx named no Pod",
			v.Services.Outside(w), s.Pod.Name, quantity.Length(lag, w.Open.End), quantity.Count(unnamed, "error")),
		Fix: fmt.Sprintf("keep serving ≥ %s after SIGTERM (a preStop sleep, or a delay before shutting down); or "+
			"have the ingress follow sooner: one that watches EndpointSlices instead of asking for them, a shorter "+
			"interval between reloads, or a try with another Pod where a connection fails",
			quantity.Span(quantity.RoundUp(lag.Max+evidence.RouteMargin))),
		Measures: []model.Measure{{Name: "ingress-lag", Object: s.Pod.Name, Length: lag}},
	}
	f.For = append(f.For, signsOfStop(v, s)...)
	for _, other := range stops[1:min(len(stops), rule.MostNamed)] {
		f.For = append(f.For, evidence.Context.Target(other.Target, &other.At,
			other.Pod.Name+" stopped as well: some of these may have been sent to it"))
	}
	f.For = append(f.For, evidence.Watched.Target(w.Target, &w.Start,
		fmt.Sprintf("%s of class http_5xx named no Pod; the good answers meanwhile named %s",
			quantity.Count(unnamed, "error"), quantity.Count(len(w.Backends), "Pod"))))
	besideTheProxy(v, w, s.Pod, &f)
	if p := turnedReady(v, w); p != nil {
		f.Oppose(evidence.Close.Doubt(p.Name + " became ready as requests began to fail: it may not have served yet"))
	}
	f.ExplainsAtMost(w, unnamed+evidence.Count(w.Classes, byProxy...))
	return f
}

// ledTo reports whether the window's requests may be led to a Pod: it may stand behind one Service with a Pod that good
// answers name.
func ledTo(v *evidence.Evidence, w *model.Window, p *model.Pod) bool {
	return slices.ContainsFunc(v.Services.Pods(w), func(named *model.Pod) bool {
		return w.Backends[named.Name] > 0 && v.Services.Together(named, p)
	})
}

// signsOfStop returns what was seen of the Pod's end.
func signsOfStop(v *evidence.Evidence, s *evidence.PodStop) (signs []evidence.Sign) {
	if s.Proved {
		signs = append(signs, evidence.Watched.Target(s.Target, &s.At, s.Pod.Name+" stopped answering new clients"))
	}
	for _, seen := range []struct {
		at   *model.Instant
		kind timeline.EventKind
		text string
	}{
		{s.Pod.Deleted, timeline.PodDeleted, "was deleted"},
		{s.Pod.EndpointNotReady, timeline.EndpointChanged, "left the ready endpoints"},
		{s.Pod.Exited, timeline.PodContainer, "exited"},
	} {
		if event := v.Changes.IDOf(s.Pod, seen.kind, seen.at); event > 0 {
			signs = append(signs, evidence.Watched.Event(event, seen.at, s.Pod.Name+" "+seen.text))
		}
	}
	return signs
}

// besideTheProxy looks at targets of the same run whose requests went to the Pod's Service itself meanwhile.
func besideTheProxy(v *evidence.Evidence, w *model.Window, p *model.Pod, f *rule.Finding) {
	var well, ill []string
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Service == "" || t.Kind != timeline.New && t.Kind != timeline.Reused || !v.Services.Behind(p, t) {
			continue
		}
		if v.Traffic.OutageNear(t.Name, w.Span()) != nil {
			ill = append(ill, t.Name)
		} else if _, sent := v.Answered(t.ID, w.Start.Earliest, w.End.Latest); sent > 0 {
			well = append(well, t.Name)
		}
	}
	f.Beside(well, ill, "requests to the Service itself did not fail meanwhile",
		"requests to the Service itself failed as well (%s): its routes were late, too",
		"the Service itself was not measured: whether its routes were well is not known")
}

// turnedReady returns a Pod whose endpoint became ready as the window's requests began to fail, nil if none did. A
// proxy sends to none before.
func turnedReady(v *evidence.Evidence, w *model.Window) *model.Pod {
	for _, p := range v.Services.Pods(w) {
		if p.EndpointReady != nil && p.EndpointReady.Latest > 0 &&
			p.EndpointReady.Overlaps(model.Instant{Earliest: w.Start.Earliest - evidence.FollowSlack,
				Latest: w.Start.Latest}) {
			return p
		}
	}
	return nil
}
