// Package lookup asks DNS servers for one name at a steady rate, each at its own address, and says when their answers
// change.
//
// The queries go straight to the server: no resolver, no Service and no cache of this machine is in between. That a
// server answers from a cache of its own is part of what is measured, for its clients get the same. Queries are sent
// when they are due, whether those before were answered or not.
//
// One prober asks, because servers differ, not the nodes' ways to them. The resolver of a Pod would ask any server that
// the Service's routes lead to, and wait 5 s for one that is gone. A node-local DNS cache is not asked. The TTL is not
// part of the lag: clients may cache an answer for that time, and CoreDNS counts down the TTL of what it has cached, so
// longest lag plus longest TTL is an upper bound.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/timeline"
)

const (
	// Interval is the time between two queries to one server: 25 per second.
	Interval = 40 * time.Millisecond
	// Timeout is how long an answer is awaited.
	Timeout = time.Second
)

// A Server is a DNS server at one of its addresses.
type Server struct {
	Addr netip.AddrPort  `json:"addr"`
	Pod  timeline.Object `json:"pod,omitzero"` // whose address it is
}

// Config says what to ask.
type Config struct {
	Name    string // the name asked for, with a dot at its end
	IPv6    bool   // ask for AAAA records; else for A
	Service string // NAMESPACE/NAME of the Service whose endpoints the name has
	Servers []Server
	Clock   timeline.Clock
	Sink    func(timeline.Fact) // gets events; it must not block

	interval, timeout time.Duration // for tests; 0: as above
}

// Run asks all servers until ctx ends.
func Run(ctx context.Context, c Config) error {
	if c.interval == 0 {
		c.interval, c.timeout = Interval, Timeout
	}
	name, err := dnsmessage.NewName(c.Name)
	if err != nil {
		return fmt.Errorf("ask for %q: %w", c.Name, err)
	}
	asked := dnsmessage.Question{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	if c.IPv6 {
		asked.Type = dnsmessage.TypeAAAA
	}
	var asking sync.WaitGroup
	for _, s := range c.Servers {
		asking.Go(func() { c.ask(ctx, s, asked) })
	}
	asking.Wait()
	return nil
}

// A query that was sent.
type query struct {
	id   uint16
	sent time.Duration
	over bool // it was answered, or is awaited no longer
	outcome
}

// A received is what was read from the server's socket.
type received struct {
	message []byte
	at      time.Duration
	err     error
}

// ask asks one server until ctx ends.
func (c Config) ask(ctx context.Context, server Server, asked dnsmessage.Question) {
	history := history{server: server, service: c.Service, patient: c.timeout, lookup: timeline.Lookup{Name: c.Name}}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server.Addr)) // nothing is sent
	if err != nil {
		c.Sink(history.event(timeline.Event{Seen: c.Clock.Now(), To: timeline.LookupNotAsked, Detail: err.Error()}))
		return
	}
	replies := make(chan received)
	var reading sync.WaitGroup
	reading.Go(func() { c.read(ctx, conn, replies) })
	defer reading.Wait()
	defer conn.Close()

	var open []query // in the order sent
	settle := func(now time.Duration) {
		for len(open) > 0 {
			first := open[0]
			if !first.over && now-first.sent <= c.timeout {
				return
			}
			if !first.over {
				first.outcome = outcome{done: now, why: "no answer"}
			}
			open = open[1:]
			if e, changed := history.next(first.sent, first.outcome); changed {
				c.Sink(e)
			}
		}
	}
	due := time.NewTicker(c.interval)
	defer due.Stop()
	for next := uint16(rand.Uint32()); ; {
		select {
		case <-due.C:
			settle(c.Clock.Now())
			q := query{id: next, sent: c.Clock.Now()}
			if _, err := conn.Write(packed(next, asked)); err != nil {
				q.over, q.outcome = true, outcome{done: c.Clock.Now(), why: reason(err)}
			}
			next++
			open = append(open, q)
		case r := <-replies:
			note(open, r, asked)
			settle(c.Clock.Now())
		case <-ctx.Done():
			if history.lookup.Asked > 0 {
				c.Sink(history.enter(timeline.LookupEnded, c.Clock.Now()))
			}
			return
		}
	}
}

// read hands on what comes in, until ctx has ended and the connection is closed.
func (c Config) read(ctx context.Context, conn net.Conn, replies chan<- received) {
	for {
		message := make([]byte, 4096)
		n, err := conn.Read(message)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case replies <- received{message[:n], c.Clock.Now(), err}:
		case <-ctx.Done():
			return
		}
	}
}

// note sets the outcome of the open query that r answers, if there is one. An error goes to the first query, because
// the kernel does not say which one it belongs to.
func note(open []query, r received, asked dnsmessage.Question) {
	id, o, isAnswer := parse(r.message, asked)
	o.done = r.at
	for i := range open {
		q := &open[i]
		switch {
		case q.over:
		case r.err != nil:
			q.over, q.outcome = true, outcome{done: r.at, why: reason(r.err)}
			return
		case isAnswer && q.id == id:
			q.over, q.outcome = true, o
			return
		}
	}
}
