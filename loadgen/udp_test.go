package loadgen

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

func TestUDPRepliesAreJudged(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	saying := func(text string) func(string, func(string)) {
		return func(_ string, reply func(string)) { reply(text) }
	}
	long := strings.Repeat("x", 9000)
	tests := []struct {
		name        string
		echo, reply string
		answer      func(string, func(string))
		want        timeline.Class
	}{
		{"the echo", "ping", "", loadtest.Echo, timeline.OK},
		{"the echo with its digits", "ping {id}", "", loadtest.Echo, timeline.OK},
		{"the digits at the beginning", "{id} ping", "", loadtest.Echo, timeline.OK},
		{"the expected reply", "PING\r\n", "+PONG\r\n", saying("+PONG\r\n"), timeline.OK},
		{"more than the beginning of the reply", "PING", "+PO", saying("+PONG\r\n"), timeline.OK},
		{"a reply longer than the read buffer", "PING", "xxxx", saying(long), timeline.OK},
		{"a reply with the digits elsewhere", "a {id}", "b", func(d string, reply func(string)) { reply("b, of " + d) }, timeline.OK},
		{"the expected reply with its digits", "a {id}", "b {id}", func(d string, reply func(string)) { reply("b" + d[1:]) }, timeline.OK},
		{"another reply", "PING", "+PONG", saying("-ERR"), timeline.Body},
		{"half a reply", "ping", "", saying("pi"), timeline.Body},
		{"an empty datagram", "ping", "", saying(""), timeline.Body},
		{"another reply with the digits", "a {id}", "b", loadtest.Echo, timeline.Body},
		{"the expected reply without the digits", "a {id}", "b", saying("b"), timeline.Body},
		{"silence", "ping", "", func(string, func(string)) {}, timeline.TimeoutResponse},
		{"silence on sockets that stay", "ping {id}", "", func(string, func(string)) {}, timeline.TimeoutResponse},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Direct, timeline.Reused} {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				s := loadtest.ServeUDP(t, test.answer)
				p := probe(1, kind, s.URL(), 100)
				p.Addr, p.Echo, p.Reply, p.Connections, p.MaxConnections = s.Addr(), test.echo, test.reply, 2, 1000
				if p.Timeout = 10 * time.Second; test.want.Timeout() {
					p.Timeout = 200 * time.Millisecond
				}
				f := runUntil(t, "5 observed requests", func(f *facts) bool { return f.observed(1) >= 5 }, p)
				for _, r := range f.of(1) {
					if r.Class.Observed() && (r.Class != test.want || r.Code != 0) {
						t.Errorf("%v %d, want %v: %q", r.Class, r.Code, test.want, f.blames(p.Name))
					}
				}
			})
		}
	}
}

func TestUDPClosedPortIsRefused(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
		for _, echo := range []string{"ping", "ping {id}"} {
			t.Run(string(kind)+" "+echo, func(t *testing.T) {
				t.Parallel()
				s := loadtest.ServeUDP(t, loadtest.Echo)
				s.Close()
				p := probe(1, kind, s.URL(), 100)
				p.Echo, p.Connections = echo, 3
				f := runUntil(t, "20 observed requests", func(f *facts) bool { return f.observed(1) >= 20 }, p)
				for _, r := range f.of(1) {
					if r.Class.Observed() && r.Class != timeline.Refused {
						t.Errorf("%+v", r)
					}
				}
			})
		}
	}
}

// A reply that comes after its request has timed out is not the answer to the next one.
func TestUDPLateRepliesAnswerNothing(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const timeout = 40 * time.Millisecond
	for _, echo := range []string{"ping", "ping {id}"} {
		t.Run(echo, func(t *testing.T) {
			t.Parallel()
			var waiting sync.WaitGroup
			t.Cleanup(waiting.Wait)                                        // after the server's end
			s := loadtest.ServeUDP(t, func(d string, reply func(string)) { // on time for the request after it
				waiting.Go(func() { time.Sleep(timeout * 3 / 2); reply(d) })
			})
			p := probe(1, timeline.Reused, s.URL(), 0.8/timeout.Seconds())
			p.Echo, p.Connections, p.Timeout = echo, 1, timeout
			f := runUntil(t, "30 timeouts", func(f *facts) bool { return f.ended(1, timeline.TimeoutResponse) >= 30 }, p)
			n := classes(f.of(1))
			// no_slot: after a standstill many wait at once
			if n[timeline.OK] > 0 || failed(f.of(1)) != n[timeline.TimeoutResponse]+n[timeline.NoSlot] {
				t.Errorf("%v: %q", n, f.blames(p.Name))
			}
		})
	}
}

// A server that answers a second time when the next request is open does not answer that.
func TestUDPSecondReplyIsDropped(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var before string
	s := loadtest.ServeUDP(t, func(d string, reply func(string)) {
		if before != "" {
			reply(before)
		}
		before = d
		reply(d)
	})
	p := probe(1, timeline.Reused, s.URL(), 100)
	p.Echo, p.Connections, p.MaxConnections, p.Timeout = "ping {id}", 1, 1, 10*time.Second
	f := runUntil(t, "100 answers", func(f *facts) bool { return f.ended(1, timeline.OK)+f.ended(1, timeline.Body) >= 100 }, p)
	n := classes(f.of(1))
	if ports, _ := s.Sources(); n[timeline.Body] > 0 || ports != 1 {
		t.Errorf("%v from %d ports: %q", n, ports, f.blames(p.Name))
	}
}

// Kept sockets keep their source ports whatever fails on them, so that what connection tracking keeps of them stays
// in the way of their requests. Without {id}, and on new sockets, a failed request leaves from another port than the
// one after it.
func TestUDPSourcePorts(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	tests := []struct {
		kind   timeline.TargetKind
		echo   string
		closed bool // refused instead of silence
		same   bool
	}{
		{timeline.Reused, "ping {id}", false, true}, {timeline.Reused, "ping {id}", true, true},
		{timeline.Reused, "ping", false, false}, {timeline.New, "ping", false, false}, {timeline.New, "ping {id}", false, false},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s %s %v", test.kind, test.echo, test.closed), func(t *testing.T) {
			t.Parallel()
			silent := loadtest.ServeUDP(t, func(string, func(string)) {})
			at := silent.Addr()
			p := probe(1, test.kind, silent.URL(), 50)
			p.Echo, p.Connections, p.MaxConnections, p.Timeout = test.echo, 3, 3, 50*time.Millisecond
			var answering *loadtest.UDPServer
			var before map[uint16]int
			f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
				loadtest.WaitFor(t, "20 failures", func() bool { return f.ended(1, timeline.TimeoutResponse) >= 20 })
				silent.End()
				before = silent.Ports()
				if test.closed {
					loadtest.WaitFor(t, "10 refusals", func() bool { return f.ended(1, timeline.Refused) >= 10 })
				}
				answering = loadtest.ServeUDPAt(t, at, loadtest.Echo)
				loadtest.WaitFor(t, "20 answers", func() bool { return f.ended(1, timeline.OK) >= 20 })
			}, p)
			answering.End()
			ports, _ := answering.Sources()
			known := 0
			for port := range answering.Ports() {
				if before[port] > 0 {
					known++
				}
			}
			if test.same && (ports > 3 || known != ports) || test.kind == timeline.New &&
				ports < classes(f.of(1))[timeline.OK]*9/10 || !test.same && known > ports/2 {
				t.Errorf("answers came to %d ports, %d of them as before: %v", ports, known, classes(f.of(1)))
			}
		})
	}
}

func TestReusedUDPRequestsAllocateNothing(t *testing.T) {
	layer.Real(t)
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() { // without allocations of its own
		for buf := make([]byte, 100); ; {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	for _, echo := range []string{"ping", "ping {id}"} {
		p := probe(1, timeline.Reused, "udp://"+c.LocalAddr().String(), 1000)
		p.Echo = echo
		if n := allocations(t, p); n > 0 {
			t.Errorf("%s: %v allocations per request", echo, n)
		}
	}
}
