package causes

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// sidecar-first: a Pod's requests come in through a proxy beside the server. At SIGTERM the proxy exits at once,
// while the server goes on serving: nobody reaches it any more.
//
//	proxy   R R R -
//	server  R R R R R R R R -      as it should
//	direct  ok ok ok x x x x x     through the proxy

var sidecarFirst = Rule{
	Name: "sidecar-first",
	Doc:  "A container that requests pass through ended before the others of its Pod did.",
	Looks: `A Pod is deleted and stops answering at once, although one of its containers keeps running for seconds. The
containers' termination times show which ended first. The container that keeps running must be a server, with an HTTP,
TCP or gRPC probe; a log shipper is not one. The cause is not named if another port of the Pod keeps answering: then
each container serves its own port. Lapse cannot see that requests pass from one container to the other, so the
confidence is at most *medium*, and *low* if the last container had to be killed.`,
	Fix:   "Run the proxy as a native sidecar (an init container with restartPolicy: Always): it ends after the others. Or let it wait in a preStop hook.",
	Needs: []Need{podsWatched},
	Test:  testSidecarFirst,
}

func testSidecarFirst(c *Case) Finding {
	v, w := c.index, c.Window
	r := v.raceIn(w)
	if len(r.stops) == 0 {
		return no(r.whyNot)
	}
	for _, s := range r.stops {
		in := v.endedInParts(s)
		if in == nil {
			continue
		}
		if in.known && !in.serves {
			return no(fmt.Sprintf("%s of %s, which ended last, has no probe that asks over the network: it is no server that others could have gone through %s to", in.last, s.pod.Name, in.first))
		}
		f := Finding{
			Text: fmt.Sprintf("container %s of %s ended ≥ %s before %s did, and nothing answered at the Pod's address from then on", in.first, s.pod.Name, quantity.Lowest(in.apart), in.last),
			Fix: fmt.Sprintf("run %s as a native sidecar (an init container with restartPolicy: Always), which ends after the others, or let it serve on in a preStop hook for ≥ %s",
				in.first, quantity.Span(quantity.RoundUp(in.apart+time.Second))),
			For: []Sign{{model.Evidence{Event: in.event.ID, At: &in.event.At, Text: fmt.Sprintf("container %s of %s ended at %s by its kubelet's clock, %s at %s", in.first, s.pod.Name, in.from.Format(time.TimeOnly), in.last, in.to.Format(time.TimeOnly))}, Watched}},
		}
		f.For = append(f.For, s.signs()...)
		if !s.proved {
			f.missing(doubt(Measured, "the Pod's own address was not probed: when it stopped is not measured"))
		}
		if !in.known {
			f.missing(doubt(Watched, fmt.Sprintf("whether %s serves at all is not known, for the Pod's template was not recorded: %s may be the server, and not a proxy", in.last, in.first)))
		}
		if in.forced {
			f.against(doubt(Watched, fmt.Sprintf("%s did not end until it was killed (exit code %d): nothing tells that it was to serve on, and %s may be the server", in.last, killed, in.first)))
		}
		f.missing(doubt(Measured, fmt.Sprintf("that requests pass through %s to %s is not seen: if %s is the server itself, its routes outlived it", in.first, in.last, in.first)))
		f.against(r.notTheirs()...)
		f.explains(w, r.explained)
		return f
	}
	return no("the containers of the Pods that stopped ended together, or serve a port each, or there was only one")
}
