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
		if s.send(w, fmt.Sprintf("id: %d\ndata: %s\n\n", id, s.options.Name)) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done(): // the client has left, or the server has cut the connection
			return
		case <-holding.leave:
			_ = s.send(w, fmt.Sprintf("event: end\ndata: %s\n\n", s.options.Name))
			return
		}
	}
}

// send writes an event, which counts as an answer.
func (s *server) send(w http.ResponseWriter, event string) error {
	s.counts.started.Add(1)
	_, err := w.Write([]byte(event))
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil {
		s.counts.failed.Add(1)
		return err
	}
	s.counts.served.Add(1)
	return nil
}
