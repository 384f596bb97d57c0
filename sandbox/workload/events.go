package main

import (
	"fmt"
	"net/http"
	"time"
)

// events are server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) on /events: one at
// once, and one each --events-every. An event's data is the Pod's name. At the end of a graceful drain comes an event
// `end`, and the response is complete; with --ends cut, and of a server that exits at SIGTERM, it is cut short.
//
//	id: 1
//	data: web-1
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	holding := s.held.begin()
	defer s.held.ended(holding)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	tick := time.NewTicker(s.options.EventsEvery)
	defer tick.Stop()
	for id := 1; ; id++ {
		event := fmt.Sprintf("id: %d\ndata: %s\n\n", id, s.options.Name)
		if s.counts.answer(func() error { return send(w, event) }) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done(): // the client has left, or the server has cut the connection
			return
		case <-holding.leave:
			last := fmt.Sprintf("event: end\ndata: %s\n\n", s.options.Name)
			_ = s.counts.answer(func() error { return send(w, last) })
			return
		}
	}
}

// send writes an event at once.
func send(w http.ResponseWriter, event string) error {
	if _, err := w.Write([]byte(event)); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
