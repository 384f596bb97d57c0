// Package prober measures what a coordinator assigns: that of a run, in a Pod on each node of --from, and on the
// workstation for --from outside; or guards, in a Pod on each node.
package prober

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lapse/dashboard/places"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/record"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
	"lapse/loadgen"
	"lapse/timeline"
)

// A Prober is the process in a Pod on a node. It has a session for the coordinator of a run, or for each guard. It
// watches nothing and judges nothing.
type Prober struct {
	log     *slog.Logger
	forget  time.Duration   // how long a guard's session stays without a call
	thread  *loadgen.Thread // paces the requests of all guards
	pace    sync.Once       // starts it
	over    chan struct{}   // ends it
	running sync.WaitGroup  // the thread, and sessions that were dropped

	mu       sync.Mutex
	sessions map[string]*served // by coordinator; "": that of a run
	leaving  bool               // no session begins any more
}

// A served session is one behind an API.
type served struct {
	*Session
	api   http.Handler
	calls int           // that are not answered yet
	last  time.Duration // when the last one was answered
	idle  *time.Timer   // until it is forgotten, unless there is a call then; nil for a run
}

const (
	// lastChance is how long a prober that got SIGTERM waits for its recordings to be fetched: a drain may wait for its
	// Pod.
	lastChance = 20 * time.Second
	// maxConns is how many connections a prober's API holds open. A coordinator needs a few.
	maxConns = 64
	// forgetAfter is how long the session of a guard stays without a call: the guard was killed.
	forgetAfter = 2 * time.Minute
	// maxSessions is how many sessions there can be. There are two guards; one that was killed leaves a session.
	maxSessions = 8
	// keepFor and keepBytes bound the recording of a guard's session, in memory.
	keepFor   = 2 * time.Minute
	keepBytes = 8 << 20
)

// Run measures for a coordinator, until a signal ends it.
func Run(ctx context.Context, env spec.Env, signals <-chan os.Signal, stderr io.Writer) error {
	listen := env[deploy.EnvProbe]
	if listen == "" {
		return exit.Usagef("`lapse run svc/NAME --from all` and `lapse gen guard -A --from all` start probers",
			"%s is not set: this verb is for the Pods of probers", deploy.EnvProbe)
	}
	p := New(terminal.NewLogger(stderr))
	defer p.Close()
	keys, err := p.prepare(env)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("serve the prober's API: %w", err)
	}
	server := agent.NewProberServer(p.Find, keys)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.ServeTLS(places.Limit(server, ln, maxConns), "", ""); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("the prober's API ended", "error", err)
		}
	})
	select {
	case <-ctx.Done():
	case <-signals:
	}
	p.leave(signals)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if server.Shutdown(stopping) != nil {
		server.Close()
	}
	serving.Wait()
	return nil
}

// New returns a prober for guards. With [Prober.BeginRun] it is that of a run.
func New(log *slog.Logger) *Prober {
	return &Prober{
		log: log, thread: loadgen.NewThread(timeline.StartClock(), loadgen.Economical, log), forget: forgetAfter,
		over: make(chan struct{}), sessions: map[string]*served{},
	}
}

// Close ends all sessions, and does not wait for responses.
func (p *Prober) Close() {
	for _, s := range p.endAll() {
		s.abandon()
	}
	close(p.over)
	p.running.Wait()
	for _, s := range p.sessions {
		_ = s.rec.Close() // a second Close, unless nothing was measured
	}
}

// prepare returns who may call. Guards' keys are in files; a run's are in the environment, and its session begins.
func (p *Prober) prepare(env spec.Env) (*tls.Config, error) {
	if dir := env[deploy.EnvKeyDir]; dir != "" {
		return deploy.ProberKeysIn(dir, p.log)
	}
	keys, err := env.ProberKeys().Server()
	if err == nil {
		_, err = p.BeginRun(env[deploy.EnvRun], cmp.Or(env[deploy.EnvDir], deploy.DefaultDir))
	}
	return keys, err
}

// BeginRun begins the session of a run, which records into a file in dir.
func (p *Prober) BeginRun(name, dir string) (*Session, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for the recording: %w", err)
	}
	process := rand.Text()
	rec, err := record.Create(filepath.Join(dir, process+".lapse"))
	if err != nil {
		return nil, err
	}
	s := newSession(name, process, timeline.StartClock(), rec, p.log)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[""] = &served{Session: s, api: agent.SessionAPI(s)}
	return s, nil
}

// Find returns the API of a coordinator's session: it is an [agent.FindSession]. A guard that joins gets a new session
// if it has none, or one that has measured: who joins has given that up.
func (p *Prober) Find(coordinator string, join bool) (api http.Handler, over func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[coordinator]
	if join && coordinator != "" && (s == nil || !s.joinable()) {
		if s, err = p.beginGuard(coordinator, s); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case s != nil:
	case coordinator == "":
		return nil, nil, refuse(http.StatusBadRequest, "this prober measures for guards: for which one is the request?")
	default:
		return nil, nil, refuse(http.StatusConflict, "%s has no session (any more): join first", coordinator)
	}
	s.calls++
	return s.api, func() { p.answered(s) }, nil
}

func refuse(status int, format string, args ...any) error {
	return &agent.RefusedError{Status: status, Message: fmt.Sprintf(format, args...)}
}

// beginGuard begins the session of a guard, in place of the one before, if it had one. The caller holds the mutex.
func (p *Prober) beginGuard(name string, before *served) (*served, error) {
	if p.leaving {
		return nil, refuse(http.StatusServiceUnavailable, "the prober is about to end")
	}
	if before == nil && len(p.sessions) >= maxSessions {
		return nil, refuse(http.StatusServiceUnavailable,
			"the prober has %d sessions, and no more: one ends %s after its last call", maxSessions, p.forget)
	}
	rec, err := record.NewInMemory(keepFor, keepBytes)
	if err != nil {
		return nil, err
	}
	if before != nil {
		p.drop(name, before)
	}
	s := newSession(name, rand.Text(), p.thread.NewClock(), rec, p.log)
	s.shared = p.pacing
	began := &served{Session: s, api: agent.SessionAPI(s), last: s.Now()}
	began.idle = time.AfterFunc(p.forget, func() { p.forgetIdle(name, began) })
	p.sessions[name] = began
	return began, nil
}

// pacing returns the thread that paces the requests of all guards. It runs from the first call on.
func (p *Prober) pacing() *loadgen.Thread {
	p.pace.Do(func() { p.running.Go(func() { p.thread.Run(p.over) }) })
	return p.thread
}

// answered notes that a call was answered.
func (p *Prober) answered(s *served) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.calls--
	s.last = s.Now()
	if s.calls == 0 && s.idle != nil {
		s.idle.Reset(p.forget)
	}
}

// forgetIdle ends a guard's session, unless a call has come meanwhile.
func (p *Prober) forgetIdle(name string, s *served) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.calls > 0 || s.Now()-s.last < p.forget || p.sessions[name] != s || p.leaving {
		return
	}
	p.log.Warn("a guard does not call any more: its session ends", "guard", name, "after", p.forget)
	p.drop(name, s)
}

// drop ends a guard's session that nobody reads any more, and forgets it. The caller holds the mutex.
func (p *Prober) drop(name string, s *served) {
	s.idle.Stop()
	delete(p.sessions, name)
	if s.End("", 0) == nil {
		p.running.Go(s.abandon)
	}
}

// endAll ends all sessions, and returns those that have measured. No session begins any more.
func (p *Prober) endAll() (ended []*served) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true
	for _, s := range p.sessions {
		if s.End("", 0) == nil {
			ended = append(ended, s)
		}
	}
	return ended
}

// leave stops measuring after SIGTERM, and waits until the coordinators have the whole recordings, or for lastChance.
func (p *Prober) leave(signals <-chan os.Signal) {
	last := time.NewTimer(lastChance)
	defer last.Stop()
	for _, s := range p.endAll() {
		select {
		case <-s.Acked():
		case <-last.C:
			p.log.Warn("a coordinator has not fetched all of its recording", "coordinator", s.name)
			return
		case <-signals:
			return
		}
	}
}
