package loadgen

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen/faultserver"
	"lapse/loadgen/internal/engine"
	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// polledConns returns how many connections of target 1 the pacing thread reads and wait for a request.
func polledConns(p *Prober) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return engine.PolledIdle(p.targets[1].engine)
}

// allReused checks that all requests of target 1 were good, and that all but the first of each connection were sent
// on one that was there.
func allReused(t *testing.T, f *facts, connections int) {
	t.Helper()
	anew := 0
	for _, r := range f.of(1) {
		switch {
		// a busy machine is late with server and prober alike
		case r.Class == timeline.NotSent, r.Class == timeline.NoSlot, r.Class == timeline.Local:
		case r.Class != timeline.OK:
			t.Errorf("%+v", r)
		case !r.Reused:
			anew++
		}
	}
	if anew > connections {
		t.Errorf("%d requests were the first of their connection, and there are %d", anew, connections)
	}
}

// A reply that comes in pieces is read when it is whole, and its first byte is the first piece's.
func TestRepliesInPieces(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const between = 5 * time.Millisecond
	const text = "HTTP/1.1 200 OK\r\nX-Pod: pod-a\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nwelcome\r\n0\r\nExpires: never\r\n\r\n"
	url := serveScripts(t, []script{func(c *net.TCPConn, n int) bool {
		at := n % len(text) // each reply is cut at another place
		_, err := c.Write([]byte(text[:at]))
		time.Sleep(between)
		_, last := c.Write([]byte(text[at:]))
		return err == nil && last == nil
	}})
	p := probe(1, timeline.Reused, url, 100)
	p.Connections, p.MaxConnections = 2, 2
	f := run(t, timeline.StartClock(), func(p *Prober, f *facts) {
		loadtest.WaitFor(t, "replies cut at each place", func() bool { return f.ended(1, timeline.OK) >= 2*len(text) })
		if holdsProcessor && polledConns(p) == 0 {
			loadtest.WaitFor(t, "a polled connection", func() bool { return polledConns(p) > 0 })
		}
	}, p)
	allReused(t, f, p.Connections)
	early := 0
	for _, r := range f.of(1) {
		if r.Class == timeline.OK && f.backends[r.Backend] != "pod-a" {
			t.Errorf("%+v is from %q", r, f.backends[r.Backend])
		}
		if r.Sent+r.FirstByte.Duration()+between/2 < r.Done {
			early++
		}
	}
	if early < 50 {
		t.Errorf("only %d requests had their first byte well before the last one", early)
	}
}

// Replies that are longer than the read buffer are read by goroutines from then on. No request fails or is sent anew
// for that.
func TestLongRepliesAreReadByGoroutines(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var length atomic.Int64
	url := serveScripts(t, []script{func(c *net.TCPConn, n int) bool {
		body := strings.Repeat("x", int(length.Load()))
		_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return err == nil
	}})
	p := probe(1, timeline.Reused, url, 200)
	p.Connections, p.MaxConnections = 4, 4
	f := run(t, timeline.StartClock(), func(p *Prober, f *facts) {
		loadtest.WaitFor(t, "50 replies", func() bool { return f.count(1) >= 50 })
		if holdsProcessor {
			loadtest.WaitFor(t, "the pacing thread to read short replies", func() bool { return polledConns(p) > 0 })
		}
		length.Store(3 * wire.ReadBuffer)
		loadtest.WaitFor(t, "100 long replies", func() bool { return f.count(1) >= 150 })
		if polledConns(p) > 0 {
			t.Error("the pacing thread reads long replies")
		}
		length.Store(10)
		loadtest.WaitFor(t, "50 short ones again", func() bool { return f.count(1) >= 200 })
	}, p)
	allReused(t, f, p.Connections)
}

// A request on a connection that is polled fails when its time is over, not before, and so does one whose reply has
// begun. How much later is the machine's doing, but of 30 not each is late.
func TestPolledRequestsTimeOut(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const timeout = 100 * time.Millisecond
	var mute atomic.Bool
	url := serveScripts(t, []script{func(c *net.TCPConn, n int) bool {
		text := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		if mute.Load() {
			text = text[:len(text)*(n%2)/2] // nothing, or a part
		}
		_, err := c.Write([]byte(text))
		return err == nil
	}})
	p := probe(1, timeline.Reused, url, 100)
	p.Timeout, p.Connections = timeout, 10
	f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "20 answers", func() bool { return f.ended(1, timeline.OK) >= 20 })
		mute.Store(true)
		loadtest.WaitFor(t, "30 timeouts", func() bool { return f.ended(1, timeline.TimeoutResponse) >= 30 })
		mute.Store(false)
		loadtest.WaitFor(t, "20 answers more", func() bool { return f.ended(1, timeline.OK) >= 40 })
	}, p)
	reused, soonest := 0, time.Hour
	for _, r := range f.of(1) {
		took := r.Done - r.Sent
		switch {
		case r.Class == timeline.TimeoutResponse && took < timeout:
			t.Errorf("%+v timed out after %v", r, took)
		case r.Class == timeline.TimeoutResponse && r.Reused:
			reused++
			soonest = min(soonest, took)
		case r.Class != timeline.TimeoutResponse && r.Class != timeline.NoSlot && r.Class != timeline.OK &&
			r.Class.Observed():
			t.Errorf("%+v", r)
		}
	}
	if reused == 0 || soonest > timeout+timeline.ShortestStop {
		t.Errorf("%d requests on kept connections timed out, the first after %v", reused, soonest)
	}
}

// A long reply that breaks off fails its request once, though a goroutine reads it that the pacing thread has handed
// it to.
func TestLongReplyThatBreaksOffFailsOnce(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var broken atomic.Bool
	url := serveScripts(t, []script{func(c *net.TCPConn, n int) bool {
		body := "ok"
		if broken.Load() {
			body = strings.Repeat("x", 2*wire.ReadBuffer)
		}
		text := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if broken.Load() {
			text = text[:len(text)-1]
		}
		_, err := c.Write([]byte(text))
		return err == nil
	}})
	p := probe(1, timeline.Reused, url, 200)
	p.Timeout, p.Connections = 100*time.Millisecond, 10
	f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "50 answers", func() bool { return f.ended(1, timeline.OK) >= 50 })
		broken.Store(true)
		loadtest.WaitFor(t, "50 timeouts", func() bool { return f.ended(1, timeline.TimeoutResponse) >= 50 })
	}, p)
	reused := 0
	for _, r := range f.of(1) { // of: each is there once
		if r.Class == timeline.TimeoutResponse && r.Reused {
			reused++
		}
	}
	if reused == 0 {
		t.Errorf("no request on a kept connection timed out: %v", classes(f.of(1)))
	}
}

// Where there is no poller, goroutines read all replies, and find the same.
func TestWithoutAPollerGoroutinesReadTheReplies(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	s := loadtest.Serve(t, faultserver.Config{Faults: []faultserver.Fault{{Kind: faultserver.Error, To: time.Hour, Every: 3}}})
	p := New(Config{Clock: timeline.StartClock(), Source: 1})
	p.thread.polling = nil
	f := runProber(t, p, func(p *Prober, f *facts) {
		loadtest.WaitFor(t, "200 observed requests", func() bool { return f.observed(1) >= 200 })
		if n := polledConns(p); n > 0 {
			t.Errorf("%d connections are polled", n)
		}
	}, probe(1, timeline.Reused, s.URL(), 400))
	loadtest.Close(t, s)
	if n := classes(f.of(1)); n[timeline.OK] < 100 || !accounted(n[timeline.HTTP5xx], s.Count(faultserver.Error), n) {
		t.Errorf("%v, and the server made %d errors", n, s.Count(faultserver.Error))
	}
}

// Polled requests allocate nothing once they run.
func TestPolledRequestsAllocateNothing(t *testing.T) {
	polling := engine.NewPolling(timeline.StartClock())
	if err := polling.Open(); err != nil {
		if holdsProcessor {
			t.Fatal(err)
		}
		return // there is none on this system
	}
	if n := allocationsOf(t, probe(1, timeline.Reused, startServer(t, "http"), 1000), polling); n > 0 {
		t.Errorf("%v allocations per request", n)
	}
}
