// Package faultserver is an HTTP/1.1 server that misbehaves on schedule and keeps the books about it.
// What measures outages can be held against what it knows to be true.
//
//	s, err := faultserver.Start(faultserver.Config{T0: time.Now(), Faults: []faultserver.Fault{
//		{Kind: faultserver.Refuse, From: 2 * time.Second, To: 2500 * time.Millisecond},
//		{Kind: faultserver.Reset, From: 4 * time.Second, To: 4300 * time.Millisecond, Share: 0.5},
//	}})
//
// It listens on the loopback interface and speaks plain HTTP, or HTTPS with a TLS configuration, or another protocol
// over TCP (see Config). Requests must have no body, and wait for the answer to the one before. A [UDPServer] fails
// as it does over UDP.
package faultserver

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Kind says how the server misbehaves. The list is closed.
type Kind string

const (
	Refuse   Kind = "refuse"   // nobody listens: connections are reset and new ones refused. Spares nobody.
	Reset    Kind = "reset"    // the request is read, then the connection reset
	EOF      Kind = "eof"      // the request is read, then the connection closed
	Stall    Kind = "stall"    // the request is read, and answered when the fault is over
	Slow     Kind = "slow"     // the answer comes after Delay
	Error    Kind = "5xx"      // 503, or what is most like it (see Config.Protocol); over UDP another reply
	Truncate Kind = "truncate" // the connection is closed in the middle of the body
	Drop     Kind = "drop"     // over UDP: the request is read, and never answered
	Goodbye  Kind = "goodbye"  // no fault: the answer is whole, says Connection: close, and the connection is closed
)

// A Fault is trouble from one instant to another, counted from Config.T0.
type Fault struct {
	Kind     Kind
	From, To time.Duration
	Delay    time.Duration // Slow: how long the answer takes

	// Whom it meets; everyone if none is set.
	After int     // those after the first so many that come while it lasts
	Every int     // every Nth request, counted from when the fault began
	Share float64 // this share of requests, at random
}

// Config says what to do when. The zero value serves well.
type Config struct {
	T0     time.Time // from when instants count; the time of Start if zero
	Faults []Fault   // in any order; of several at once the first one counts
	Seed   uint64    // of the random shares
	Name   string    // who we are, in the X-Pod header of each reply; "" for no such header
	Number bool      // and on which connection: NAME-1, NAME-2, …
	TLS    *tls.Config

	// Protocol is what is spoken: "" is HTTP/1.1, "sse" server-sent events over it, "h2c" HTTP/2 with prior
	// knowledge, "grpc" gRPC over that, "ws" WebSocket, whose pings are the requests, "tcp" lines that are sent back.
	// An error is a 503, of gRPC UNAVAILABLE, of WebSocket a close frame instead of the pong, of TCP another line; a
	// Goodbye of HTTP/2 is a GOAWAY, of WebSocket a close frame after the pong. TCP knows none: a client cannot know
	// that the connection ends before it does.
	Protocol string
}

// An Act is something the server did to a request.
type Act struct {
	Kind Kind
	At   time.Duration // when it had read the request
	Conn int           // which connection, from 1
}

// An Outage is a time in which nobody listened. What was read before Close.From was served, and what was sent after
// Close.To was not; the server listened again from Open.To at the latest, and not before Open.From.
type Outage struct {
	Close, Open Span
}

// A held is a request that a stall keeps waiting.
type held struct {
	conn    *conn
	settled chan struct{} // closed when it is answered, or its client has left
}

// A Span holds an instant that is not known better.
type Span struct{ From, To time.Duration }

// A Server is a faulty server at work.
type Server struct {
	config Config
	addr   netip.AddrPort
	over   chan struct{} // closed when the server ends
	wg     sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	down     bool // nobody shall be served
	conns    map[*conn]bool
	random   *rand.Rand
	met      []int    // by fault: how many requests came while it lasted
	held     [][]held // by fault: what a stall keeps waiting
	accepted int
	answered int
	acts     []Act
	outages  []Outage
	cuts     []Cut
	failure  error
}

// Start starts a server on a free port of the loopback interface.
func Start(c Config) (*Server, error) {
	if speeches[c.Protocol] == nil {
		return nil, fmt.Errorf("fault server: no protocol %q", c.Protocol)
	}
	if c.T0.IsZero() {
		c.T0 = time.Now()
	}
	c.Faults = slices.Clone(c.Faults)
	s := &Server{
		config: c,
		over:   make(chan struct{}),
		conns:  map[*conn]bool{},
		random: rand.New(rand.NewPCG(c.Seed, c.Seed)),
		met:    make([]int, len(c.Faults)),
		held:   make([][]held, len(c.Faults)),
	}
	if err := s.listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.addr = s.listener.Addr().(*net.TCPAddr).AddrPort()
	for i, f := range c.Faults {
		switch f.Kind {
		case Refuse:
			s.wg.Go(func() { s.refuse(f) })
		case Stall:
			s.wg.Go(func() { s.release(i, f) })
		}
	}
	return s, nil
}

// Addr returns where the server listens, when it does.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// overTLS has the scheme that each scheme has over TLS.
var overTLS = map[string]string{
	"http": "https",
	"sse":  "sses",
	"h2c":  "h2",
	"grpc": "grpcs",
	"ws":   "wss",
	"tcp":  "tls",
}

// URL returns the server's address as a URL.
func (s *Server) URL() string {
	scheme := cmp.Or(s.config.Protocol, "http")
	if s.config.TLS != nil {
		scheme = overTLS[scheme]
	}
	if s.config.Protocol == "tcp" {
		return scheme + "://" + s.addr.String()
	}
	return scheme + "://" + s.addr.String() + "/"
}

// Refuse lets nobody listen from now on until reopen is called, as a fault of kind Refuse does by schedule.
func (s *Server) Refuse() (reopen func()) {
	closed := s.shut()
	return func() {
		outage := Outage{Close: closed, Open: s.reopen()}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outages = append(s.outages, outage)
	}
}

// Stall leaves every request unanswered that is read from now on, until answer is called, as a fault of kind Stall
// does by schedule.
func (s *Server) Stall() (answer func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.config.Faults)
	s.config.Faults = append(s.config.Faults, Fault{Kind: Stall, From: s.now(), To: math.MaxInt64})
	s.met, s.held = append(s.met, 0), append(s.held, nil)
	return func() {
		s.mu.Lock()
		s.config.Faults[i].To = s.now()
		s.mu.Unlock()
		s.answer(i)
	}
}

// Close ends the server and waits until all of it has ended. It returns an error if an outage could not begin or end as
// scheduled, or a connection could not be accepted.
func (s *Server) Close() error {
	close(s.over)
	s.shut()
	s.wg.Wait()
	return s.failure
}

// Answered returns how many requests were given a whole, good answer. A client can have its answer a moment
// before it is counted; after Close the count is final.
func (s *Server) Answered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// Accepted returns how many connections there were.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Acts lists every request that a fault met, in order. Those that found nobody listening are not
// known to the server.
func (s *Server) Acts() []Act {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Act(nil), s.acts...)
}

// Count returns how many requests met a fault of a kind.
func (s *Server) Count(k Kind) (n int) {
	for _, act := range s.Acts() {
		if act.Kind == k {
			n++
		}
	}
	return n
}

// Outages lists the times in which nobody listened, those that are over.
func (s *Server) Outages() []Outage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Outage(nil), s.outages...)
}

// CutIdle closes the connections on which no request is open, and returns how many those were. A
// request that crosses with it finds its connection closed: an Act of kind EOF.
func (s *Server) CutIdle() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.idle {
			c.idle = false // what it reads from here on is not served
			_ = c.tcp.CloseWrite()
			n++
		}
	}
	return n
}

func (s *Server) now() time.Duration { return time.Since(s.config.T0) }

// wait waits until an instant, and reports whether it came before the server's end.
func (s *Server) wait(until time.Duration) bool {
	timer := time.NewTimer(until - s.now())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.over:
		return false
	}
}

func (s *Server) listen(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("fault server: %w", err)
	}
	s.listener, s.down = listener, false
	s.wg.Go(func() { s.accept(listener) })
	return nil
}

// refuse lets nobody listen for as long as f lasts.
func (s *Server) refuse(f Fault) {
	if !s.wait(f.From) {
		return
	}
	reopen := s.Refuse()
	if s.wait(f.To) {
		reopen()
	}
}

// release ends stall i when it is over. The requests are answered one after the other: thousands at once would crowd
// out a client in this process.
func (s *Server) release(i int, f Fault) {
	if s.wait(f.To) {
		s.answer(i)
	}
}

// answer answers what stall i keeps waiting.
func (s *Server) answer(i int) {
	s.mu.Lock()
	all := s.held[i]
	s.held[i] = nil
	s.mu.Unlock()
	for _, h := range all {
		h.conn.endWait(h.settled)
		<-h.settled
	}
}

// shut serves nobody from here on, and returns when that began: ending every connection takes its time, but nobody is
// served meanwhile.
func (s *Server) shut() Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := Span{From: s.now()}
	s.down = true
	began.To = s.now()
	_ = s.listener.Close() // may be closed already
	for c := range s.conns {
		c.cut()
	}
	return began
}

// reopen listens again, and returns when that began.
func (s *Server) reopen() Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := Span{From: s.now()}
	select {
	case <-s.over:
		return began
	default:
	}
	if err := s.listen(s.addr.String()); err != nil {
		s.failure = errors.Join(s.failure, err)
	}
	began.To = s.now()
	return began
}

func (s *Server) accept(listener net.Listener) {
	for {
		c, err := listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as too many open files
			s.failed(err)
			s.wait(s.now() + acceptAgain)
		default:
			s.take(c.(*net.TCPConn))
		}
	}
}

// acceptAgain is how long nothing is accepted after an attempt to that failed.
const acceptAgain = 5 * time.Millisecond

// failed keeps what went wrong for Close to return, the first of its kind only.
func (s *Server) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = fmt.Errorf("fault server: %w", err)
	}
}

func (s *Server) take(tcp *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down { // accepted at the last moment
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
		return
	}
	s.accepted++
	c := newConn(s, tcp, s.accepted)
	s.conns[c] = true
	s.wg.Go(c.serve)
}

// verdict decides which fault, if any, a request meets that was read on c. served is false where the
// connection is being ended.
func (s *Server) verdict(c *conn) (f Fault, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !c.idle { // it crossed with the end of its connection
		s.acts = append(s.acts, Act{Kind: EOF, At: now, Conn: c.number})
		return Fault{}, false
	}
	c.idle = false
	for i, f := range s.config.Faults {
		if f.Kind != Refuse && f.From <= now && now < f.To {
			s.met[i]++
			if !f.meets(s.met[i], s.random) {
				continue
			}
			s.acts = append(s.acts, Act{Kind: f.Kind, At: now, Conn: c.number})
			if f.Kind == Stall {
				c.settled = make(chan struct{})
				s.held[i] = append(s.held[i], held{c, c.settled})
			}
			return f, true
		}
	}
	return Fault{}, true
}

// meets decides whether f meets the nth request of its time.
func (f Fault) meets(n int, random *rand.Rand) bool {
	n -= f.After
	switch {
	case n <= 0:
		return false
	case f.Every > 0:
		return n%f.Every == 0
	case f.Share > 0:
		return random.Float64() < f.Share
	}
	return true
}
