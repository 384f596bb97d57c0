//go:build unix

package loadgen

import (
	"bufio"
	"crypto/tls"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen/internal/engine"
	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/stall"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// Requests on persistent connections allocate nothing once they run: the garbage collector has no part in when they
// leave.
func TestReusedRequestsAllocateNothing(t *testing.T) {
	if n := allocations(t, probe(1, timeline.Reused, startServer(t, "http"), 1000)); n > 0 {
		t.Errorf("%v allocations per request", n)
	}
}

func TestReusedTCPRequestsAllocateNothing(t *testing.T) {
	addr := strings.Trim(strings.TrimPrefix(startServer(t, "http"), "http:"), "/")
	p := probe(1, timeline.Reused, "tcp://"+addr, 1000)
	p.Echo = "GET / HTTP/1.1\r\nHost: pod-a\r\n\r\n"
	p.Reply = replyTo(t, addr, p.Echo)
	if n := allocations(t, p); n > 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// replyTo returns what the server at addr replies to a request.
func replyTo(t *testing.T, addr, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, wire.ReadBuffer)
	n, err := c.Read(text) // which the server wrote at once
	if err != nil {
		t.Fatal(err)
	}
	return string(text[:n])
}

// Over TLS they allocate what crypto/tls does.
func TestReusedTLSRequestsAllocateWhatTLSDoes(t *testing.T) {
	layer.Real(t)
	url := startServer(t, "https")
	p := probe(1, timeline.Reused, url, 1000)
	_, p.RootCAs = testTLS(t) // httptest has one certificate in all processes
	ours, theirs := allocations(t, p), allocationsOfTLS(t, p)
	t.Logf("%v allocations per request, %v in crypto/tls", ours, theirs)
	if ours > theirs+1 { // under the race detector sync.Pool, which crypto/tls uses, forgets at random
		t.Errorf("%v allocations per request, but only %v are crypto/tls's", ours, theirs)
	}
}

// Over HTTP/2 they allocate what x/net's Framer does for a header: a frame, its fields, and the text of those that
// are not in a table.
func TestReusedHTTP2RequestsAllocateLittle(t *testing.T) {
	layer.Real(t)
	const most = 10
	n := allocations(t, probe(1, timeline.Reused, "h2c://"+scriptHTTP2(t, func(c *loadtest.HTTP2Script, stream uint32, _ int) bool {
		c.OK(stream)
		return true
	}), 1000))
	t.Logf("%v allocations per request, some of them the server's", n)
	if n > most {
		t.Errorf("%v allocations per request, more than %d", n, most)
	}
}

// A new connection takes what net's Dialer does, 20 or so, and little more.
func TestNewRequestsAllocateLittle(t *testing.T) {
	const most = 30
	n := allocations(t, probe(1, timeline.New, startServer(t, "http"), 1000))
	t.Logf("%v allocations per request", n)
	if n > most {
		t.Errorf("%v allocations per request, more than %d", n, most)
	}
}

// allocations returns how many a request of p takes on average, rounded down: other goroutines allocate as well.
func allocations(t *testing.T, p Probe) float64 {
	t.Helper()
	return allocationsOf(t, p, nil)
}

// allocationsOf is as allocations, with the polling that the pacing thread would do.
func allocationsOf(t *testing.T, p Probe, polling *engine.Polling) float64 {
	t.Helper()
	p.Connections, p.Timeout = 1, 10*time.Second
	plan, err := protocol.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	plan.Ports = wire.NewPortAllocator()
	target, e := engine.New(plan, p.Rate, engine.Shared{
		Clock: timeline.StartClock(), Log: slog.New(slog.DiscardHandler), Stalls: &stall.Detector{}, Polling: polling, Notes: &engine.Notes{},
	})
	e.Prepare()
	defer e.Close()
	requests := make([]timeline.Request, 0, 16)
	var seq uint64
	ask := func() {
		j := engine.Job{Seq: seq, Due: engine.FloorMicros(target.Clock.Now())}
		target.Inflight.Opened(j.Seq, j.Due, j.Due+time.Millisecond)
		e.Send(j)
		seq++
		for requests = requests[:0]; len(requests) == 0; requests, _, _ = target.Inflight.Take(requests,
			target.Clock.Now()) {
			if polling == nil {
				// with one processor, only an idle scheduler looks at sockets at once
				time.Sleep(20 * time.Microsecond)
				continue
			}
			polling.Wait(20 * time.Microsecond)
			polling.Read()
		}
		for engine.InUse(e) {
			runtime.Gosched()
		}
		// it was late, as this machine stood still: one of 300 changes nothing
		if requests[0].Class != timeline.OK && requests[0].Class != timeline.NotSent {
			t.Errorf("%+v", requests[0])
		}
	}
	for range 20 {
		ask()
	}
	return testing.AllocsPerRun(300, ask)
}

// allocationsOfTLS returns how many the bare exchange of the same bytes takes.
func allocationsOfTLS(t *testing.T, p Probe) float64 {
	t.Helper()
	plan, err := protocol.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", plan.Addr.String(), plan.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	replies := bufio.NewReaderSize(c, wire.ReadBuffer)
	var r protocol.Reply
	return testing.AllocsPerRun(300, func() {
		if _, err := c.Write(plan.Message); err != nil {
			t.Fatal(err)
		}
		if err := plan.Read(replies, &r); err != nil {
			t.Fatal(err)
		}
	})
}
