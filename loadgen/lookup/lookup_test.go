package lookup

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/internal/layer"
	"lapse/timeline"
)

const twin = "lapse-x-twin.shop.svc.cluster.local."

var (
	a = netip.MustParseAddr("10.244.1.7")
	b = netip.MustParseAddr("10.244.2.9")
)

// A nameServer is a DNS server on this machine. What it answers is set by the tests.
type nameServer struct {
	t     *testing.T
	conn  net.PacketConn
	clock timeline.Clock

	mu     sync.Mutex
	answer func(n int, query dnsmessage.Message) []dnsmessage.Message // to the nth query, from 1
	asked  []time.Duration                                            // when each query came
}

func startServer(t *testing.T, clock timeline.Clock, answer func(n int, query dnsmessage.Message) []dnsmessage.Message) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{t: t, conn: conn, clock: clock, answer: answer}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	t.Cleanup(func() { conn.Close(); serving.Wait() })
	return s
}

func (s *nameServer) serve() {
	for {
		message := make([]byte, 512)
		n, from, err := s.conn.ReadFrom(message)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if err := query.Unpack(message[:n]); err != nil {
			s.t.Errorf("a query that cannot be read: %v", err)
			return
		}
		s.mu.Lock()
		s.asked = append(s.asked, s.clock.Now())
		for _, reply := range s.answer(len(s.asked), query) {
			packed, err := reply.Pack()
			if err != nil {
				s.t.Errorf("a reply that cannot be written: %v", err)
			}
			_, _ = s.conn.WriteTo(packed, from)
		}
		s.mu.Unlock()
	}
}

// answers makes the server answer otherwise from now on, and says when that began.
func (s *nameServer) answers(answer func(n int, query dnsmessage.Message) []dnsmessage.Message) (from, to time.Duration) {
	from = s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
	return from, s.clock.Now()
}

func (s *nameServer) addr() netip.AddrPort { return s.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// reply returns a good answer to a query.
func reply(query dnsmessage.Message, ttl uint32, addrs ...netip.Addr) dnsmessage.Message {
	r := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true}, Questions: query.Questions}
	for _, addr := range addrs {
		header := dnsmessage.ResourceHeader{Name: query.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: ttl}
		var body dnsmessage.ResourceBody = &dnsmessage.AResource{A: [4]byte(addr.AsSlice()[:4])}
		if addr.Is6() {
			body = &dnsmessage.AAAAResource{AAAA: addr.As16()}
		}
		r.Answers = append(r.Answers, dnsmessage.Resource{Header: header, Body: body})
	}
	return r
}

// good answers every query with these addresses.
func good(ttl uint32, addrs ...netip.Addr) func(int, dnsmessage.Message) []dnsmessage.Message {
	return func(_ int, query dnsmessage.Message) []dnsmessage.Message {
		return []dnsmessage.Message{reply(query, ttl, addrs...)}
	}
}

// start asks a server until the returned function is called.
func start(t *testing.T, c Config) (events chan timeline.Event, stop func()) {
	t.Helper()
	events = make(chan timeline.Event, 100)
	c.Name, c.Service = twin, "shop/lapse-x-canary"
	c.Sink = func(f timeline.Fact) { events <- f.(timeline.Event) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c) }()
	return events, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// one returns the only server.
func (s *nameServer) one() []Server {
	return []Server{{Addr: s.addr(), Pod: timeline.Object{Kind: "Pod", Namespace: "kube-system", Name: "coredns-1", Node: "node2"}}}
}

// The server gives another set of addresses from some instant on: the event's bracket holds it. The order of the
// addresses is none.
func TestAnswersThatChangeAreEvents(t *testing.T) {
	clock := timeline.StartClock()
	server := startServer(t, clock, func(n int, query dnsmessage.Message) []dnsmessage.Message {
		both := []netip.Addr{a, b}
		if n%2 == 0 {
			slices.Reverse(both)
		}
		return []dnsmessage.Message{reply(query, uint32(5-n%3), both...)}
	})
	events, stop := start(t, Config{Servers: server.one(), Clock: clock, interval: time.Millisecond, timeout: time.Minute})
	first := <-events
	if first.Kind != timeline.NameAnswered || first.From != "" || first.To != timeline.LookupAnswered || !slices.Equal(first.Lookup.Addrs, []netip.Addr{a, b}) || first.Lookup.Name != twin {
		t.Errorf("first: %+v", first)
	}
	if first.Object.Name != "coredns-1" || first.Addr != server.addr().Addr() || first.Service != "shop/lapse-x-canary" {
		t.Errorf("it is about %+v at %s, of %s", first.Object, first.Addr, first.Service)
	}
	from, to := server.answers(good(4, b))
	second := <-events
	if !slices.Equal(second.Lookup.Addrs, []netip.Addr{b}) || second.Since > to || second.Seen < from || second.Since < first.Since || second.From != timeline.LookupAnswered {
		t.Errorf("%+v, and it changed between %v and %v", second, from, to)
	}
	if l := second.Lookup; l.Longest == nil || *l.Longest > 5*time.Second || *l.Longest < 4*time.Second || *l.Shortest < 3*time.Second || l.Asked != l.Answered {
		t.Errorf("%+v", l)
	}
	server.answers(func(_ int, query dnsmessage.Message) []dnsmessage.Message {
		none := reply(query, 0)
		none.RCode = dnsmessage.RCodeNameError
		return []dnsmessage.Message{none}
	})
	if none := <-events; none.To != timeline.LookupAnswered || len(none.Lookup.Addrs) > 0 {
		t.Errorf("the name is gone: %+v", none)
	}
	stop()
	if last := <-events; last.To != timeline.LookupEnded || last.Since <= 0 || last.Since > last.Seen || last.Detail != "" {
		t.Errorf("last: %+v", last)
	}
	if len(events) > 0 {
		t.Errorf("and %+v", <-events)
	}
}

// What is no answer is none: the set stays as it was, until for some time nothing else comes. Then that is an event,
// and so is the next answer, which bounds what changed meanwhile by the last one before.
func TestNoAnswerIsNoSet(t *testing.T) {
	layer.Real(t)
	for name, test := range map[string]struct {
		why    string
		answer func(query dnsmessage.Message) []dnsmessage.Message
	}{
		"no answer": {"no answer", func(dnsmessage.Message) []dnsmessage.Message { return nil }},
		"SERVFAIL": {"SERVFAIL", func(query dnsmessage.Message) []dnsmessage.Message {
			r := reply(query, 5)
			r.RCode = dnsmessage.RCodeServerFailure
			return []dnsmessage.Message{r}
		}},
		"truncated": {"truncated", func(query dnsmessage.Message) []dnsmessage.Message {
			r := reply(query, 5, b)
			r.Truncated = true
			return []dnsmessage.Message{r}
		}},
		"wrong ID": {"no answer", func(query dnsmessage.Message) []dnsmessage.Message {
			r := reply(query, 5, b)
			r.ID += 20_000 // none that is under way
			return []dnsmessage.Message{r}
		}},
		"another name": {"no answer", func(query dnsmessage.Message) []dnsmessage.Message {
			query.Questions[0].Name = dnsmessage.MustNewName("other.shop.svc.cluster.local.")
			return []dnsmessage.Message{reply(query, 5, b)}
		}},
		"the query itself": {"no answer", func(query dnsmessage.Message) []dnsmessage.Message { return []dnsmessage.Message{query} }},
	} {
		t.Run(name, func(t *testing.T) {
			clock := timeline.StartClock()
			server := startServer(t, clock, good(5, a, b))
			events, stop := start(t, Config{Servers: server.one(), Clock: clock, interval: time.Millisecond, timeout: 100 * time.Millisecond})
			if first := <-events; len(first.Lookup.Addrs) != 2 {
				t.Fatalf("first: %+v", first)
			}
			from, _ := server.answers(func(_ int, query dnsmessage.Message) []dnsmessage.Message { return test.answer(query) })
			gap := <-events
			if gap.To != timeline.LookupUnanswered || gap.Detail != test.why || gap.Seen < from || len(gap.Lookup.Addrs) > 0 {
				t.Fatalf("%+v", gap)
			}
			server.answers(good(5, a))
			again := <-events
			if again.From != timeline.LookupUnanswered || again.To != timeline.LookupAnswered || !slices.Equal(again.Lookup.Addrs, []netip.Addr{a}) || again.Since != gap.Since {
				t.Errorf("%+v, after %+v", again, gap)
			}
			stop()
			if last := <-events; last.To != timeline.LookupEnded || last.Detail != test.why || last.Lookup.Answered >= last.Lookup.Asked {
				t.Errorf("last: %+v", last)
			}
		})
	}
}

// A server that is not there has given no set, and what the kernel says of it is why.
func TestServerThatIsNotThere(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	conn.Close()
	events, stop := start(t, Config{Servers: []Server{{Addr: addr}}, Clock: timeline.StartClock(), interval: time.Millisecond, timeout: 100 * time.Millisecond})
	if e := <-events; e.From != "" || e.To != timeline.LookupUnanswered || e.Detail != "connection refused" || e.Lookup.Answered != 0 || e.Lookup.Longest != nil {
		t.Errorf("%+v", e)
	}
	stop()
	if last := <-events; last.To != timeline.LookupEnded {
		t.Errorf("last: %+v", last)
	}
}

// Answers that come in another order than they were asked for do not make the set go back and forth.
func TestAnswersAreTakenInTheOrderOfTheirQueries(t *testing.T) {
	clock := timeline.StartClock()
	var held []dnsmessage.Message
	server := startServer(t, clock, func(n int, query dnsmessage.Message) []dnsmessage.Message {
		switch {
		case n < 10:
			return []dnsmessage.Message{reply(query, 5, a, b)}
		case n < 15:
			held = append(held, reply(query, 5, a, b))
			return nil
		case n == 15:
			return append([]dnsmessage.Message{reply(query, 5, a)}, held...)
		}
		return []dnsmessage.Message{reply(query, 5, a)}
	})
	events, stop := start(t, Config{Servers: server.one(), Clock: clock, interval: time.Millisecond, timeout: time.Minute})
	if e := <-events; len(e.Lookup.Addrs) != 2 {
		t.Errorf("%+v", e)
	}
	if e := <-events; !slices.Equal(e.Lookup.Addrs, []netip.Addr{a}) || e.Lookup.Answered != 15 {
		t.Errorf("%+v", e)
	}
	stop()
	if e := <-events; e.To != timeline.LookupEnded {
		t.Errorf("%+v", e)
	}
}

// AAAA records are asked for in a cluster that prefers IPv6.
func TestAddressesOfIPv6(t *testing.T) {
	clock, six := timeline.StartClock(), netip.MustParseAddr("fd00::7")
	server := startServer(t, clock, good(30, six))
	events, stop := start(t, Config{Servers: server.one(), Clock: clock, IPv6: true, interval: time.Millisecond, timeout: time.Minute})
	if e := <-events; !slices.Equal(e.Lookup.Addrs, []netip.Addr{six}) || *e.Lookup.Longest != 30*time.Second {
		t.Errorf("%+v", e)
	}
	stop()
}

// No server is asked more often than may be, whether it answers or not.
func TestRateIsBounded(t *testing.T) {
	layer.Real(t)
	clock := timeline.StartClock()
	enough := make(chan struct{})
	server := startServer(t, clock, func(n int, _ dnsmessage.Message) []dnsmessage.Message {
		if n == 10 {
			close(enough)
		}
		return nil
	})
	_, stop := start(t, Config{Servers: server.one(), Clock: clock})
	<-enough
	stop()
	server.mu.Lock()
	defer server.mu.Unlock()
	for i, at := range server.asked {
		if earliest := time.Duration(i+1) * Interval; at < earliest {
			t.Errorf("query %d came at %v, before %v", i+1, at, earliest)
		}
	}
}
