package routes

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// sidecar-first: a Pod's requests come in through a proxy next to the server. At SIGTERM the proxy exits at once,
// while the server goes on serving: no request reaches it any more.
//
//	proxy   R R R -
//	server  R R R R R R R R -      as it should
//	direct  ok ok ok x x x x x     through the proxy
//
// Or the server exits at once, and a proxy before it goes on: it answers 502.

var SidecarFirst = rule.Rule{
	Name:  "sidecar-first",
	Doc:   "A container that requests need ended before the others of its Pod did.",
	Needs: []rule.Need{rule.PodsWatched},
	Test:  testSidecarFirst,
}

func testSidecarFirst(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	r := v.Routes.Race(w)
	stops, as, explained := r.Stops, map[*evidence.PodStop]*evidence.FormCount{}, r.Explained
	maps.Copy(as, r.As)
	cutters, cut := evidence.FindCutters(v.Endings, w)
	for _, c := range cutters {
		s := c.Stop()
		if s.Quiet || v.Traffic.Target(w).Kind != timeline.Reused {
			continue
		}
		explained = min(w.Failed, r.Lost+cut)
		if i := slices.IndexFunc(stops, func(o *evidence.PodStop) bool { return o.Pod == c.Pod }); i < 0 {
			stops, as[s] = append(stops[:len(stops):len(stops)], s), &c.As
		} else {
			as[stops[i]] = &c.As
		}
	}
	if len(stops) == 0 {
		return rule.No(r.WhyNot)
	}
	for _, s := range stops {
		in := v.Endings.EndedInParts(s)
		if in == nil {
			continue
		}
		answers := as[s].Most() == evidence.AnswersErrors
		if in.Known && !in.Serves && !answers {
			return rule.No(fmt.Sprintf("%s of %s, which ended last, has no probe that asks over the network: it is no "+
				"server that others could have gone through %s to", in.Last, s.Pod.Name, in.First))
		}
		f := rule.Finding{
			Text: fmt.Sprintf("container %s of %s ended ≥ %s before %s did, and %s from then on", in.First, s.Pod.Name,
				quantity.Lowest(in.Apart), in.Last, answered(v, s, as[s])),
			Fix: fmt.Sprintf("run %s as a native sidecar (an init container with restartPolicy: Always), which ends "+
				"after the others, or let a preStop hook of %s sleep ≥ %s",
				in.First, in.First, quantity.Span(quantity.RoundUp(in.Apart+time.Second))),
			For: []evidence.Sign{evidence.Watched.Seen(in.Event,
				fmt.Sprintf("container %s of %s ended at %s by its kubelet's clock, %s at %s", in.First, s.Pod.Name,
					in.From.Format(time.TimeOnly), in.Last, in.To.Format(time.TimeOnly)))},
		}
		f.For = append(f.For, s.Signs()...)
		if !s.Proved {
			f.Lack(evidence.Measured.Doubt("the Pod's own address was not probed: when it stopped is not measured"))
		}
		if answers && len(v.Templates.HooksOf(s.Pod)) > 0 {
			f.Fix += "; now " + v.Templates.Sleeps(s.Pod)
		}
		if !s.Quiet && s.Lag().Min > 0 {
			f.Text += fmt.Sprintf("; %s still led to it for %s", v.Services.Routes(w), s.About())
			f.Measures = []model.Measure{{Name: model.RouteLag, Object: s.Pod.Name, Node: v.Services.RouterNode(w),
				Length: s.Lag()}}
		}
		if !in.Known && !answers {
			f.Lack(evidence.Watched.Doubt(fmt.Sprintf("whether %s serves at all is not known, for the Pod's "+
				"template was not recorded: %s may be the server, and not a proxy", in.Last, in.First)))
		}
		if in.Forced {
			f.Oppose(evidence.Watched.Doubt(fmt.Sprintf("%s did not end until it was killed (exit code %d): nothing "+
				"tells that it was to serve on, and %s may be the server", in.Last, evidence.Killed, in.First)))
		}
		if !as[s].CannotReach() {
			f.Lack(evidence.Measured.Doubt(fmt.Sprintf("that requests pass through %s to %s is not seen: if %s is "+
				"the server itself, its routes outlived it", in.First, in.Last, in.First)))
		}
		if !s.Quiet {
			f.Lack(v.Addresses.Unasked(w)...)
			f.Oppose(v.Suspects.FailedAsWell(w, stops)...)
		}
		f.Oppose(r.NotTheirs()...)
		f.ExplainsAtMost(w, explained)
		return f
	}
	return rule.No(
		"the containers of the Pods that stopped ended together, or serve a port each, or there was only one")
}

// answered says what the Pod's address did once a container had ended.
func answered(v *evidence.Evidence, s *evidence.PodStop, c *evidence.FormCount) string {
	if c.Most() == evidence.AnswersErrors {
		return fmt.Sprintf("the Pod answered with %s", c.Answer(v.Traffic, s.Target))
	}
	return "nothing answered at the Pod's address"
}
