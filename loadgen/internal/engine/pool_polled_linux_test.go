package engine

import (
	"net"
	"testing"
	"time"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// aPolledSession returns a connection of a pool of one connection which is polled, and is busy with a request that was
// sent just now.
func aPolledSession(t *testing.T, clock timeline.Clock) (*pool, *poolConn, *net.TCPConn) {
	t.Helper()
	ours, theirs := loadtest.TCPPair(t)
	target := aRequester(clock, 1000)
	compiled, err := protocol.Compile(probe(1, timeline.Reused, "http://"+ours.RemoteAddr().String(), 1000))
	if err != nil {
		t.Fatal(err)
	}
	compiled.Ports, compiled.MaxInUse = wire.NewPortAllocator(), 1
	target.Compiled = compiled
	target.Polling = NewPolling(clock)
	if err := target.Polling.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Polling.Close)
	relyOnStamps(t, target.Polling, clock)
	p := newPool(target)
	s := &poolConn{pool: p, slot: &connSlot{kept: true}, conn: protocol.NewConn(ours)}
	if !s.adopt() {
		t.Fatal("not adopted")
	}
	s.slot.live.Store(s)
	s.watch()
	p.inUse, s.state = 1, busy
	s.attempt = target.attempt(Job{}, clock.Now())
	s.attempt.written = clock.Now()
	target.Inflight.Opened(0, 0, time.Millisecond)
	p.expect(s)
	return p, s, theirs
}

// relyOnStamps waits until the kernel stamps what arrives, and the thread relies on that.
func relyOnStamps(t *testing.T, y *Polling, clock timeline.Clock) {
	t.Helper()
	ours, theirs := loadtest.TCPPair(t)
	o, err := y.Adopt(ours, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	loadtest.WaitFor(t, "stamps to be relied on", func() bool {
		sent := clock.Now()
		if _, err := theirs.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		y.Read() // it looks at the clocks
		_, stamp, err := o.Receive(make([]byte, 1))
		if err != nil {
			t.Fatal(err)
		}
		y.Came(sent, stamp, clock.Now())
		y.Wait(0)
		return y.Rested()
	})
}

// done returns the requests of p that are over.
func (p *pool) done() []timeline.Request {
	requests, _, _ := p.Inflight.Take(nil, p.Clock.Now())
	return requests
}

// A reply that came before its time was over is a success, though the pacing thread woke only afterwards.
func TestReplyInTimeIsReadBeforeItsRequestExpires(t *testing.T) {
	t.Parallel()
	clock := timeline.ClockAt(time.Now().Add(-time.Second)) // at its zero, a prober counts as stopped
	p, s, theirs := aPolledSession(t, clock)
	if _, err := theirs.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	const soon = 20 * time.Microsecond // in the future still
	p.Timeout = clock.Now() - s.attempt.sent + soon
	p.deadlines = deadlines{}
	p.expect(s)
	for clock.Now() <= s.attempt.sent+p.Timeout {
	}
	p.Polling.Until(clock.Now(), never, func() {})
	if done := p.done(); len(done) != 1 || done[0].Class != timeline.OK || done[0].Delayed ||
		done[0].Done > CeilMicros(s.attempt.sent+p.Timeout) {
		t.Errorf("%+v", done)
	}
}

// A pool whose connections all wait for replies looks for these first, and opens a further one only if there are none.
func TestPoolReadsRepliesBeforeItOpensAConnection(t *testing.T) {
	t.Parallel()
	p, s, theirs := aPolledSession(t, timeline.StartClock())
	p.Inflight.Opened(1, time.Millisecond, 2*time.Millisecond)
	p.Send(Job{Seq: 1, Due: time.Millisecond})
	if done := p.done(); len(done) != 1 || done[0].Class != timeline.NoSlot {
		t.Fatalf("%+v, while the only connection is in use", done)
	}
	if _, err := theirs.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	p.Inflight.Opened(2, 2*time.Millisecond, 3*time.Millisecond)
	p.Send(Job{Seq: 2, Due: 2 * time.Millisecond})
	if done := p.done(); len(done) != 1 || done[0].Seq != 0 || done[0].Class != timeline.OK {
		t.Errorf("%+v", done)
	}
	if s.state != busy || s.attempt.Seq != 2 {
		t.Errorf("the connection is in state %d with request %d", s.state, s.attempt.Seq)
	}
}
