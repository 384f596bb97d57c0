package correlate

import (
	"time"

	"lapse/timeline"
)

// An endpointBook knows the state of every endpoint.
type endpointBook map[endpointKey]string

// An endpointKey names one endpoint: an address may be in several EndpointSlices and on several ports.
type endpointKey struct {
	addr, uid string
	port      int
}

func (b endpointBook) enter(e *Event) { b[endpointKey{e.Addr, e.Object.UID, e.Code}] = e.To }

// ready counts the addresses that are ready.
func (b endpointBook) ready() int { return b.count(timeline.EndpointReady) }

// usable counts the addresses that are ready or terminating and still serving: kube-proxy routes to
// the latter where none is ready (KEP-1669).
func (b endpointBook) usable() int {
	return b.count(timeline.EndpointReady, timeline.EndpointTerminatingServing)
}

func (b endpointBook) count(states ...string) int {
	addrs := map[string]bool{}
	for key, state := range b {
		for _, wanted := range states {
			if state == wanted {
				addrs[key.addr] = true
			}
		}
	}
	return len(addrs)
}

// An emptySpan is a stretch in which a Service had no endpoint to route to.
type emptySpan struct {
	start, end Instant
	last       *Event // the endpoint that left last
	next       *Event // the one that ended it, nil if it went on to the end of what is known
}

// whole is all the time the span can have taken.
func (e emptySpan) whole() Instant { return Instant{Earliest: e.start.Earliest, Latest: e.end.Latest} }

// emptySpans finds when there was no usable endpoint, from how they changed until the end of the
// run. Changes seen in the same instant came in one update and count as one. Where there never was an
// endpoint there is no span.
func emptySpans(endpoints []*Event, end time.Duration) []emptySpan {
	var spans []emptySpan
	book := endpointBook{}
	for _, e := range endpoints {
		was := book.usable()
		book.enter(e)
		now := book.usable()
		switch open := len(spans) > 0 && spans[len(spans)-1].next == nil; {
		case was > 0 && now == 0:
			spans = append(spans, emptySpan{start: e.At, end: Instant{Earliest: e.At.Latest, Latest: end}, last: e})
		case open && was == 0 && now > 0 && spans[len(spans)-1].last.Seen == e.Seen:
			spans = spans[:len(spans)-1]
		case open && was == 0 && now > 0:
			spans[len(spans)-1].end = e.At
			spans[len(spans)-1].next = e
		}
	}
	return spans
}

// emptySpans are those of the window's Service; none where EndpointSlices could not be watched, for
// then what was last heard proves nothing.
func (v *view) emptySpans(w *Window) []emptySpan {
	if v.laneOff("endpointslice", w) {
		return nil
	}
	return v.service(w).empty
}

// emptyNear is the first span without endpoints that overlaps the window, nil if there is none.
func emptyNear(v *view, w *Window) *emptySpan {
	for _, empty := range v.emptySpans(w) {
		if empty.whole().overlaps(w.span()) {
			return &empty
		}
	}
	return nil
}

// end is how far the run has come.
func (v *view) end() time.Duration {
	end := v.run.Run.Duration
	for _, e := range v.run.Events {
		end = max(end, e.Seen)
	}
	for _, w := range v.run.Windows {
		end = max(end, w.End.Latest)
	}
	return end
}
