package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

type server struct {
	options Options
	ready   time.Time // from then on /readyz says yes
	warm    time.Time // from then on answers are good
	body    []byte
	http    *http.Server

	switches switches
	draining atomic.Bool
	counts   counts
}

// counts is the server's own view: what it answered, to compare with what a client says it received.
type counts struct {
	connections, started, served, failed atomic.Int64
}

// Count is the reply to /count. Started = Served + Failed + those under way.
type Count struct {
	Pod         string `json:"pod"`
	Connections int64  `json:"connections"` // accepted
	Started     int64  `json:"started"`     // requests read
	Served      int64  `json:"served"`      // answers handed to the kernel in full
	Failed      int64  `json:"failed"`      // answers nobody was there to take
	Draining    bool   `json:"draining"`
}

func newServer(o Options, now time.Time) *server {
	s := &server{options: o, ready: now.Add(o.ReadyDelay), warm: now.Add(o.WarmUp), body: makeBody(o.BodySize)}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.healthz)
	s.switches.register(mux)
	mux.HandleFunc("/readyz", s.readyz)
	mux.HandleFunc("/count", s.count)
	mux.HandleFunc("/", s.answer)
	s.http = &http.Server{Handler: s.label(mux), ConnState: s.countConnection, IdleTimeout: o.IdleTimeout}
	return s
}

// makeBody is "ok" and then dots, with a line's end at the end.
func makeBody(size int) []byte {
	body := bytes.Repeat([]byte("."), size)
	copy(body, "ok")
	if size > 2 {
		body[size-1] = '\n'
	}
	return body
}

// label puts on every reply who gave it and, once draining, that its connection ends here.
func (s *server) label(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Pod", s.options.Name)
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// readyz goes on saying yes while draining: the pod still serves, and Kubernetes takes a terminating pod out of
// the ready endpoints by itself.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	switch {
	case time.Now().Before(s.ready):
		http.Error(w, "not yet", http.StatusServiceUnavailable)
	case s.switches.notReady.Load():
		http.Error(w, "switched off", http.StatusServiceUnavailable)
	case s.options.ReadyPeer != "" && !peerAnswers(r.Context(), s.options.ReadyPeer):
		http.Error(w, "the peer does not answer", http.StatusServiceUnavailable)
	default:
		w.Write([]byte("ok\n"))
	}
}

func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	if s.switches.unhealthy.Load() {
		http.Error(w, "switched off", http.StatusInternalServerError)
		return
	}
	w.Write([]byte("ok\n"))
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	s.counts.started.Add(1)
	if err := s.reply(w, r); err != nil {
		s.counts.failed.Add(1)
		return
	}
	s.counts.served.Add(1)
}

func (s *server) reply(w http.ResponseWriter, r *http.Request) error {
	if s.options.Latency > 0 {
		select {
		case <-time.After(s.options.Latency):
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	// Draining may have begun meanwhile.
	if s.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.Itoa(len(s.body)))
	if s.switches.broken.Load() || time.Now().Before(s.warm) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if _, err := w.Write(s.body); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

func (s *server) count(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(Count{
		Pod:         s.options.Name,
		Connections: s.counts.connections.Load(),
		Started:     s.counts.started.Load(),
		Served:      s.counts.served.Load(),
		Failed:      s.counts.failed.Load(),
		Draining:    s.draining.Load(),
	})
}

func (s *server) countConnection(_ net.Conn, state http.ConnState) {
	if state == http.StateNew {
		s.counts.connections.Add(1)
	}
}

// drain is how a server ends without losing a request. From SIGTERM on every reply says `Connection: close`, so
// that clients with a connection leave it at an answer and not in the middle of a request. New connections are
// still accepted, because the routes to this pod outlive its readiness for a while. Only then does it
// stop listening and wait for the answers under way. (http.Server.SetKeepAlivesEnabled(false) is not
// that: it also cuts idle connections, at the very moment a client may be writing to one.)
func (s *server) drain(ctx context.Context, serveFor time.Duration) error {
	s.draining.Store(true)
	select {
	case <-time.After(serveFor):
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return s.http.Shutdown(ctx)
}
