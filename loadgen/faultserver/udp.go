package faultserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A UDPServer misbehaves as a Server does, in datagrams. Of the faults there are Refuse: its socket is closed, and
// the kernel answers that the port is unreachable; Stall, Slow and Error, a reply that is none of the good ones; and
// Drop.
type UDPServer struct {
	schedule
	reply func(request []byte, good bool) []byte
	addr  netip.AddrPort
	over  chan struct{}
	wg    sync.WaitGroup

	mu       sync.Mutex
	socket   *net.UDPConn
	held     [][]asked // by fault: what a stall keeps waiting
	answered int
	acts     []Act
	outages  []Outage
	failure  error
}

// An asked is a request that waits for its answer.
type asked struct {
	text []byte
	from netip.AddrPort
}

// StartUDP starts a server on a free port of the loopback interface. reply makes the reply to a datagram, a good one
// or another. Name and TLS of the config mean nothing.
func StartUDP(c Config, reply func(request []byte, good bool) []byte) (*UDPServer, error) {
	s := &UDPServer{
		schedule: newSchedule(c),
		reply:    reply,
		over:     make(chan struct{}),
		held:     make([][]asked, len(c.Faults)),
	}
	if err := s.listen(netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		return nil, err
	}
	s.addr = s.socket.LocalAddr().(*net.UDPAddr).AddrPort()
	for i, f := range s.faults {
		switch f.Kind {
		case Refuse:
			s.wg.Go(func() { s.refuse(f) })
		case Stall:
			s.wg.Go(func() {
				if s.wait(f.To) {
					s.release(i)
				}
			})
		}
	}
	return s, nil
}

// Addr returns where the server listens, when it does.
func (s *UDPServer) Addr() netip.AddrPort { return s.addr }

// Close ends the server and waits until all of it has ended. It returns an error if an outage could not begin or end as
// scheduled.
func (s *UDPServer) Close() error {
	close(s.over)
	s.mu.Lock()
	_ = s.socket.Close() // may be closed already
	s.mu.Unlock()
	s.wg.Wait()
	return s.failure
}

// Answered returns how many requests were given a good answer, late ones too.
func (s *UDPServer) Answered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}

// Acts lists every request that a fault met, in order.
func (s *UDPServer) Acts() []Act {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acts)
}

// Outages lists the times in which nobody listened, those that are over.
func (s *UDPServer) Outages() []Outage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.outages)
}

func (s *UDPServer) listen(addr netip.AddrPort) error {
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return fmt.Errorf("fault server: %w", err)
	}
	s.socket = socket
	s.wg.Go(func() { s.serve(socket) })
	return nil
}

func (s *UDPServer) serve(socket *net.UDPConn) {
	for buf := make([]byte, 65536); ; {
		n, from, err := socket.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		s.handle(socket, asked{slices.Clone(buf[:n]), from})
	}
}

// handle decides which fault a request meets, and answers it if that is to be done now.
func (s *UDPServer) handle(socket *net.UDPConn, q asked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	i, f := s.meeting(now)
	if i >= 0 {
		s.acts = append(s.acts, Act{Kind: f.Kind, At: now})
	}
	switch f.Kind {
	case Stall:
		s.held[i] = append(s.held[i], q)
	case Drop:
	case Slow:
		s.wg.Go(func() {
			if s.wait(now + f.Delay) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.answer(socket, q, true)
			}
		})
	default:
		s.answer(socket, q, f.Kind != Error)
	}
}

// answer sends a reply. The caller holds mu.
func (s *UDPServer) answer(socket *net.UDPConn, q asked, good bool) {
	if _, err := socket.WriteToUDPAddrPort(s.reply(q.text, good), q.from); err == nil && good {
		s.answered++
	}
}

// release answers what stall i keeps waiting.
func (s *UDPServer) release(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.held[i] {
		s.answer(s.socket, q, true)
	}
	s.held[i] = nil
}

// refuse closes the socket for as long as f lasts.
func (s *UDPServer) refuse(f Fault) {
	if !s.wait(f.From) {
		return
	}
	s.mu.Lock()
	outage := Outage{Close: Span{From: s.now()}}
	_ = s.socket.Close()
	outage.Close.To = s.now()
	s.mu.Unlock()
	if !s.wait(f.To) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for range 1000 { // a client may have been given this port for a moment
		outage.Open.From = s.now()
		if err = s.listen(s.addr); err == nil {
			outage.Open.To = s.now()
			s.outages = append(s.outages, outage)
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
	s.failure = errors.Join(s.failure, err)
}

// wait waits until an instant, and reports whether it came before the server's end.
func (s *UDPServer) wait(until time.Duration) bool {
	timer := time.NewTimer(until - s.now())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.over:
		return false
	}
}

// A schedule says which request meets which fault. It is not safe for concurrent use.
type schedule struct {
	t0     time.Time
	faults []Fault
	random *rand.Rand
	met    []int // by fault: how many requests came while it lasted
}

func newSchedule(c Config) schedule {
	if c.T0.IsZero() {
		c.T0 = time.Now()
	}
	return schedule{
		t0:     c.T0,
		faults: slices.Clone(c.Faults),
		random: rand.New(rand.NewPCG(c.Seed, c.Seed)),
		met:    make([]int, len(c.Faults)),
	}
}

func (s *schedule) now() time.Duration { return time.Since(s.t0) }

// meeting returns the fault that a request meets at now, and its number, or −1.
func (s *schedule) meeting(now time.Duration) (int, Fault) {
	for i, f := range s.faults {
		if f.Kind != Refuse && f.From <= now && now < f.To {
			s.met[i]++
			if f.meets(s.met[i], s.random) {
				return i, f
			}
		}
	}
	return -1, Fault{}
}
