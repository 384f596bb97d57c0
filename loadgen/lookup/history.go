package lookup

import (
	"slices"
	"time"

	"lapse/timeline"
)

// A history makes events of what came of the queries to one server, in the order they were sent.
type history struct {
	server  Server
	service string
	patient time.Duration // for how long nothing is answered until that is an event: one lost packet is none

	state  string        // as in the last event; empty: none
	since  time.Duration // when the last query was sent that was answered; without any, the first one
	why    string        // why the last query that was not answered was not
	lookup timeline.Lookup
}

// next takes the outcome of the next query. It returns the event that follows from it, if there is one.
//
//	sent 0 ok{a b}, sent 40 ms ok{a b}, sent 80 ms lost, sent 120 ms ok{a}, answered at 121 ms
//	→ answered{a}, Since 40 ms, Seen 121 ms
func (h *history) next(sent time.Duration, o outcome) (e timeline.Event, changed bool) {
	if h.lookup.Asked == 0 {
		h.since = sent
	}
	h.lookup.Asked++
	if o.why != "" {
		h.why = o.why
		if h.state == timeline.LookupUnanswered || sent-h.since < h.patient {
			return e, false
		}
		return h.enter(timeline.LookupUnanswered, o.done), true
	}
	if len(o.addrs) > 0 {
		if h.lookup.Shortest == nil || o.ttl < *h.lookup.Shortest {
			h.lookup.Shortest = &o.ttl
		}
		if h.lookup.Longest == nil || o.ttl > *h.lookup.Longest {
			h.lookup.Longest = &o.ttl
		}
	}
	if h.lookup.Answered++; h.lookup.Answered == 1 {
		h.since = sent
	}
	if changed = h.state != timeline.LookupAnswered || !slices.Equal(h.lookup.Addrs, o.addrs); changed {
		h.lookup.Addrs = o.addrs
		e = h.enter(timeline.LookupAnswered, o.done)
	}
	h.since = sent
	return e, changed
}

func (h *history) enter(state string, seen time.Duration) timeline.Event {
	lookup := h.lookup
	e := timeline.Event{Since: h.since, Seen: seen, From: h.state, To: state, Lookup: &lookup}
	if state != timeline.LookupAnswered {
		e.Detail, lookup.Addrs = h.why, nil
	}
	h.state = state
	return h.event(e)
}

// event fills in what all events of the server have in common.
func (h *history) event(e timeline.Event) timeline.Event {
	e.Kind, e.Object, e.Addr, e.Service = timeline.NameAnswered, h.server.Pod, h.server.Addr.Addr(), h.service
	return e
}
