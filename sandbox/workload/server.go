package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type server struct {
	options Options
	ready   time.Time // from then on /readyz says yes
	warm    time.Time // from then on answers are good
	body    []byte
	http    *http.Server

	sides    []side
	held     held
	switches switches
	draining atomic.Bool
	counts   counts
}

// counts is the server's own view: what it answered, to compare with what a client says it received.
type counts struct {
	connections, started, served, failed atomic.Int64
}

// answer counts an answer, which do gives.
func (c *counts) answer(do func() error) error {
	c.started.Add(1)
	if err := do(); err != nil {
		c.failed.Add(1)
		return err
	}
	c.served.Add(1)
	return nil
}

// Count is the reply to /count. Started = Served + Failed + those under way.
type Count struct {
	Pod         string `json:"pod"`
	Connections int64  `json:"connections"` // accepted
	Started     int64  `json:"started"`     // requests read
	Served      int64  `json:"served"`      // answers handed to the kernel in full
	Failed      int64  `json:"failed"`      // answers nobody was there to take
	Draining    bool   `json:"draining"`
	// Held are connections that live long: WebSockets, event streams, of gRPC, of the TCP echo.
	Held int64 `json:"held,omitempty"`
}

func newServer(o Options, now time.Time) *server {
	s := &server{options: o, ready: now.Add(o.ReadyDelay), warm: now.Add(o.WarmUp), body: makeBody(o.BodySize)}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.healthz)
	s.switches.register(mux)
	mux.HandleFunc("/readyz", s.readyz)
	mux.HandleFunc("/count", s.count)
	mux.HandleFunc("/ws", s.webSocket)
	mux.HandleFunc("/events", s.events)
	mux.HandleFunc("/", s.answer)
	s.http = &http.Server{Handler: s.label(mux), ConnState: s.countConnection,
		IdleTimeout: o.IdleTimeout, Protocols: protocols(o)}
	return s
}

// makeBody returns "ok" followed by dots and a newline.
func makeBody(size int) []byte {
	body := bytes.Repeat([]byte("."), size)
	copy(body, "ok")
	if size > 2 {
		body[size-1] = '\n'
	}
	return body
}

// protocols returns what the port of HTTP speaks. A client of HTTP/2 without TLS needs prior knowledge (RFC 9113,
// section 3.3).
func protocols(o Options) *http.Protocols {
	var all http.Protocols
	all.SetHTTP1(true)
	all.SetHTTP2(true)
	all.SetUnencryptedHTTP2(o.H2C)
	return &all
}

// label puts on every reply who gave it and, once draining, that its connection ends here: HTTP/2 has GOAWAY for
// that, which net/http sends in the place of `Connection: close`.
func (s *server) label(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Pod", s.options.Name)
		s.warn(w)
		next.ServeHTTP(w, r)
	})
}

func (s *server) warn(w http.ResponseWriter) {
	if s.draining.Load() && s.options.Ends == "warn" {
		w.Header().Set("Connection", "close")
	}
}

// readyz goes on saying yes while draining, without --unready-at-sigterm: the pod still serves, and Kubernetes takes
// a terminating pod out of the ready endpoints by itself.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	if why := s.notReady(r.Context()); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	w.Write([]byte("ok\n"))
}

// notReady says why the server is not ready, "" if it is.
func (s *server) notReady(ctx context.Context) string {
	switch {
	case time.Now().Before(s.ready):
		return "not yet"
	case s.switches.notReady.Load():
		return "switched off"
	case s.options.ReadyPeer != "" && !peerAnswers(ctx, s.options.ReadyPeer):
		return "the peer does not answer"
	}
	return ""
}

// broken reports whether answers are bad.
func (s *server) broken() bool { return s.switches.broken.Load() || time.Now().Before(s.warm) }

func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	if s.switches.unhealthy.Load() {
		http.Error(w, "switched off", http.StatusInternalServerError)
		return
	}
	w.Write([]byte("ok\n"))
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	_ = s.counts.answer(func() error { return s.reply(w, r) }) // it is counted
}

func (s *server) reply(w http.ResponseWriter, r *http.Request) error {
	if err := s.takeTime(r.Context()); err != nil {
		return err
	}
	s.warn(w) // draining may have begun meanwhile
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.Itoa(len(s.body)))
	if s.broken() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if _, err := w.Write(s.body); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// takeTime waits for the latency of an answer.
func (s *server) takeTime(ctx context.Context) error {
	if s.options.Latency == 0 {
		return nil
	}
	select {
	case <-time.After(s.options.Latency):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
		Held:        s.held.count(),
	})
}

func (s *server) countConnection(_ net.Conn, state http.ConnState) {
	if state == http.StateNew {
		s.counts.connections.Add(1)
	}
}

// drain is how a server ends without losing a request. From SIGTERM on every reply says `Connection: close`, so that
// clients with a connection leave it at an answer and not in the middle of a request. New connections are still
// accepted, because the routes to this pod outlive its readiness for a while. Only then does it stop listening, tell
// those that keep a connection to leave, and wait for the answers under way. (http.Server.SetKeepAlivesEnabled(false)
// is not that: it also cuts idle connections, at the very moment a client may be writing to one.)
func (s *server) drain(ctx context.Context, serveFor time.Duration) error {
	if s.options.Unready {
		s.switches.notReady.Store(true)
	}
	s.draining.Store(true)
	for _, side := range s.sides {
		if side.protocol == s.options.CloseFirst {
			side.cut()
		}
	}
	select {
	case <-time.After(serveFor):
	case <-ctx.Done():
	}
	if s.options.Ends == "cut" {
		s.cut()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.EndsOver+10*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, side := range s.sides {
		all.Go(func() { side.end(ctx) })
	}
	all.Go(func() { s.held.end(ctx, s.options.EndsOver) })
	err := s.http.Shutdown(ctx)
	all.Wait()
	return err
}

// cut closes all sockets. Nobody is warned.
func (s *server) cut() {
	_ = s.http.Close()
	for _, side := range s.sides {
		side.cut()
	}
	s.held.cut()
}
