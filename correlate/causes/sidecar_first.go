package causes

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// sidecar-first: a Pod's requests come in through a proxy beside the server. At SIGTERM the proxy exits at once,
// while the server goes on serving: nobody reaches it any more.
//
//	proxy   R R R -
//	server  R R R R R R R R -      as it should
//	direct  ok ok ok x x x x x     through the proxy
//
// Or the server exits at once, and a proxy before it goes on: it answers 502.

var sidecarFirst = Rule{
	Name: "sidecar-first",
	Doc:  "A container that requests need ended before the others of its Pod did.",
	Looks: `A Pod is deleted and stops answering at once, although one of its containers keeps running for seconds. The
containers' termination times show which ended first. Or the container that ended first is the server, and a proxy in
front of it answers with errors: that confidence can be *high* if these are 502 or 504. Otherwise the container that keeps running must be a server, with an HTTP,
TCP or gRPC probe; a log shipper is not one. The cause is not named if another port of the Pod keeps answering: then
each container serves its own port. Lapse cannot see that requests pass from one container to the other, so without
such an answer the confidence is at most *medium*, and *low* if the last container had to be killed.`,
	Fix:   "Run the container that ended first as a native sidecar (an init container with restartPolicy: Always): it ends after the others. Or give it the same preStop sleep as the others.",
	Needs: []Need{podsWatched},
	Test:  testSidecarFirst,
}

func testSidecarFirst(c *Case) Finding {
	v, w := c.index, c.Window
	r := v.raceIn(w)
	stops, as, explained := r.stops, map[*podStop]*formCount{}, r.explained
	maps.Copy(as, r.as)
	cutters, cut := findCutters(v, w)
	for _, c := range cutters {
		s := c.stop()
		if s.quiet || v.target(w).Kind != timeline.Reused {
			continue
		}
		explained = min(w.Failed, r.lost+cut)
		if i := slices.IndexFunc(stops, func(o *podStop) bool { return o.pod == c.pod }); i < 0 {
			stops, as[s] = append(stops[:len(stops):len(stops)], s), &c.as
		} else {
			as[stops[i]] = &c.as
		}
	}
	if len(stops) == 0 {
		return no(r.whyNot)
	}
	for _, s := range stops {
		in := v.endedInParts(s)
		if in == nil {
			continue
		}
		answers := as[s].most() == answersErrors
		if in.known && !in.serves && !answers {
			return no(fmt.Sprintf("%s of %s, which ended last, has no probe that asks over the network: it is no server that others could have gone through %s to", in.last, s.pod.Name, in.first))
		}
		f := Finding{
			Text: fmt.Sprintf("container %s of %s ended ≥ %s before %s did, and %s from then on", in.first, s.pod.Name, quantity.Lowest(in.apart), in.last, answered(v, s, as[s])),
			Fix: fmt.Sprintf("run %s as a native sidecar (an init container with restartPolicy: Always), which ends after the others, or let it serve on in a preStop hook for ≥ %s",
				in.first, quantity.Span(quantity.RoundUp(in.apart+time.Second))),
			For: []Sign{{model.Evidence{Event: in.event.ID, At: &in.event.At, Text: fmt.Sprintf("container %s of %s ended at %s by its kubelet's clock, %s at %s", in.first, s.pod.Name, in.from.Format(time.TimeOnly), in.last, in.to.Format(time.TimeOnly))}, Watched}},
		}
		f.For = append(f.For, s.signs()...)
		if !s.proved {
			f.missing(doubt(Measured, "the Pod's own address was not probed: when it stopped is not measured"))
		}
		if answers && len(v.hooksOf(s.pod)) > 0 {
			f.Fix += ": " + v.sleeps(s.pod)
		}
		if !s.quiet && s.lag().Min > 0 {
			f.Text += fmt.Sprintf("; %s still routed to it for %s", v.router(w), s.about())
			f.Measures = []model.Measure{{Name: model.RouteLag, Object: s.pod.Name, Node: v.routerNode(w), Length: s.lag()}}
		}
		if !in.known && !answers {
			f.missing(doubt(Watched, fmt.Sprintf("whether %s serves at all is not known, for the Pod's template was not recorded: %s may be the server, and not a proxy", in.last, in.first)))
		}
		if in.forced {
			f.against(doubt(Watched, fmt.Sprintf("%s did not end until it was killed (exit code %d): nothing tells that it was to serve on, and %s may be the server", in.last, killed, in.first)))
		}
		if !as[s].cannotReach() {
			f.missing(doubt(Measured, fmt.Sprintf("that requests pass through %s to %s is not seen: if %s is the server itself, its routes outlived it", in.first, in.last, in.first)))
		}
		if !s.quiet {
			f.missing(v.unasked(w)...)
			f.against(v.failedAsWell(w, stops)...)
		}
		f.against(r.notTheirs()...)
		f.explains(w, explained)
		return f
	}
	return no("the containers of the Pods that stopped ended together, or serve a port each, or there was only one")
}

// answered says what the Pod's address did once a container had ended.
func answered(v *index, s *podStop, c *formCount) string {
	if c.most() == answersErrors {
		return fmt.Sprintf("the Pod answered with %s", c.answer(v, s.target))
	}
	return "nothing answered at the Pod's address"
}
