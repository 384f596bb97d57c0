package loadgen

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"lapse/timeline"
	"lapse/timeline/stepped"
)

// A reply is over when it arrived, which is before its server's write returns, on the loopback interface: not when
// the pacing thread woke and read it.
func TestRepliesAreOverWhenTheyArrived(t *testing.T) {
	t.Parallel()
	clock := timeline.StartClock()
	type span struct{ began, ended time.Duration }
	var mu sync.Mutex
	written := map[string]span{}
	url := serveScripts(t, []script{func(c *net.TCPConn, _ int) bool {
		mu.Lock()
		defer mu.Unlock()
		name := fmt.Sprint("reply ", len(written))
		text := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Pod: %s\r\nContent-Length: 0\r\n\r\n", name)
		began := clock.Now()
		_, err := c.Write([]byte(text))
		written[name] = span{began, clock.Now()}
		return err == nil
	}})
	p := probe(1, timeline.Reused, url, 400)
	p.Connections = 4
	f := run(t, clock, func(_ *Prober, f *facts) {
		waitFor(t, "300 answers", func() bool { return f.ended(1, timeline.OK) >= 300 })
	}, p)
	mu.Lock()
	defer mu.Unlock()
	within, sooner, later := 0, 0, 0
	for _, r := range f.of(1) {
		if r.Class != timeline.OK || !r.Reused || r.Delayed {
			continue
		}
		switch w := written[f.backends[r.Backend]]; {
		case r.Done < w.began:
			sooner++
		case r.Done > w.ended+2*wallTolerance+time.Microsecond: // it is rounded up
			later++
		default:
			within++
		}
	}
	if sooner > 0 || later > within/10 { // the kernel began with stamps a little later than the first was asked for, or the wall clock was set
		t.Errorf("%d replies were over while they were written, %d sooner, %d later", within, sooner, later)
	}
}

// While the stamps are reliable the end of a connection wakes the pacing thread, and bytes do not.
func TestEndsWakeThePacingThreadAndBytesDoNot(t *testing.T) {
	t.Parallel()
	p, s, theirs := aPolledSession(t, timeline.StartClock())
	if _, err := theirs.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	const rest = 5 * time.Millisecond
	longest := time.Duration(0)
	for range 20 { // Go's own signals wake the thread, too
		begun := time.Now()
		p.polling.poller.waitForEnds(rest)
		longest = max(longest, time.Since(begun))
	}
	if longest < rest {
		t.Errorf("of 20 waits, bytes ended each within %v", longest)
	}
	if arrived := p.polling.poller.wait(0, nil); len(arrived) != 1 || arrived[0] != s {
		t.Errorf("arrived for %v", arrived)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	const long = time.Hour
	begun := time.Now()
	p.polling.poller.waitForEnds(long)
	if took := time.Since(begun); took > long/2 {
		t.Errorf("woken by the end after %v", took)
	}
}

// aPolledSession is a session of a pool of one connection which is polled, and is busy with a request that was sent
// just now.
func aPolledSession(t *testing.T, clock timeline.Clock) (*pool, *session, *net.TCPConn) {
	t.Helper()
	ours, theirs := tcpPair(t)
	target, _ := newSink(clock, 1000)
	compiled, err := compile(probe(1, timeline.Reused, "http://"+ours.RemoteAddr().String(), 1000))
	if err != nil {
		t.Fatal(err)
	}
	compiled.ports, compiled.maxInUse = newPortAllocator(), 1
	target.compiledProbe = compiled
	target.polling = newPolling(clock)
	if err := target.polling.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.polling.close)
	awaitStamps(t, target.polling.poller)
	p := newPool(target.requester).(*pool)
	s := &session{pool: p, slot: &connSlot{kept: true}, conn: newLink(ours)}
	if !s.adopt() {
		t.Fatal("not adopted")
	}
	s.slot.session.Store(s)
	s.watch()
	p.inUse, s.state = 1, busy
	s.attempt = target.attempt(job{}, clock.Now())
	s.attempt.written = clock.Now()
	target.inflight.opened(0, 0, time.Millisecond)
	p.expect(s)
	for range 2 {
		target.polling.stamps.look(time.Now())
	}
	target.polling.resting = true
	return p, s, theirs
}

// awaitStamps waits until the kernel stamps what arrives.
func awaitStamps(t *testing.T, p *poller) {
	t.Helper()
	ours, theirs := tcpPair(t)
	o, err := p.polled(ours, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	waitFor(t, "a stamp", func() bool {
		if _, err := theirs.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		_, stamp, err := o.receive(make([]byte, 1))
		if err != nil {
			t.Fatal(err)
		}
		return stamp != 0
	})
}

// done is the requests of p that are over.
func (p *pool) done() []timeline.Request {
	requests, _, _ := p.inflight.take(nil, p.clock.Now())
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
	p.timeout = clock.Now() - s.attempt.sent + 2*wallTolerance
	p.deadlines = deadlines{}
	p.expect(s)
	pacing := &pacer{clock: clock, polling: p.polling.polledReader, stalls: &stallDetector{}, stalled: func(timeline.Event) {}}
	pacing.last = clock.Now()
	for clock.Now() <= s.attempt.sent+p.timeout+wallTolerance {
	}
	pacing.untilNext(clock.Now(), never)
	if done := p.done(); len(done) != 1 || done[0].Class != timeline.OK || done[0].Delayed || done[0].Done > ceilMicros(s.attempt.sent+p.timeout) {
		t.Errorf("%+v", done)
	}
}

// A pool whose connections all wait for replies looks for these first, and opens a further one only if there are none.
func TestPoolReadsRepliesBeforeItOpensAConnection(t *testing.T) {
	t.Parallel()
	p, s, theirs := aPolledSession(t, timeline.StartClock())
	p.inflight.opened(1, time.Millisecond, 2*time.Millisecond)
	p.send(job{seq: 1, due: time.Millisecond})
	if done := p.done(); len(done) != 1 || done[0].Class != timeline.NoSlot {
		t.Fatalf("%+v, while the only connection is in use", done)
	}
	if _, err := theirs.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	p.inflight.opened(2, 2*time.Millisecond, 3*time.Millisecond)
	p.send(job{seq: 2, due: 2 * time.Millisecond})
	if done := p.done(); len(done) != 1 || done[0].Seq != 0 || done[0].Class != timeline.OK {
		t.Errorf("%+v", done)
	}
	if s.state != busy || s.attempt.seq != 2 {
		t.Errorf("the session is in state %d with request %d", s.state, s.attempt.seq)
	}
}

// A stamp counts only where the wall clock has not been set since the look before. Where one did not count, the
// thread reads at once for a while, and the longer the more often that happens.
func TestStampsCountOnlyWhileTheWallClockIsSteady(t *testing.T) {
	clock := timeline.StartClock()
	y := newPolledReader(clock)
	stamps := &y.stamps
	a := &attempt{sent: clock.Now()}
	at := func(now time.Time, stamp int64, rested bool) {
		stamps.look(now)
		*a = attempt{sent: a.sent}
		y.resting = rested
		a.arrived, a.delayed = y.came(a.sent, stamp, now.Sub(clock.T0()))
	}
	place := func(now time.Time, rested bool) { at(now, now.UnixNano(), rested) }
	place(time.Now(), false)
	if a.arrived != 0 || a.delayed {
		t.Errorf("at the first look: %+v", a)
	}
	for range firstEnough {
		now := time.Now()
		if stamps.reliable() {
			t.Error("reliable too soon")
		}
		place(now, false)
		if want := now.Sub(clock.T0()); a.arrived < want || a.arrived > want+2*wallTolerance || a.delayed {
			t.Errorf("arrived at %v, want %v", a.arrived, want)
		}
	}
	if !stamps.reliable() {
		t.Error("not reliable")
	}
	stepped := stepped.Since(time.Now(), 2*time.Second)
	place(stepped, true)
	if a.arrived != 0 || !a.delayed || stamps.reliable() {
		t.Errorf("when the wall clock was set: %+v", a)
	}
	place(stepped, true)
	if a.arrived == 0 || a.delayed || stamps.reliable() {
		t.Errorf("after the wall clock was set: %+v", a)
	}
	for why, stamp := range map[string]int64{
		"without a stamp":                 0,
		"of before the request":           stepped.UnixNano() - int64(stepped.Sub(clock.T0())-a.sent+2*wallTolerance),
		"of after the reply was read":     stepped.UnixNano() + int64(2*wallTolerance),
		"of the time since the last boot": int64(time.Hour),
	} {
		at(stepped, stepped.UnixNano(), false)
		if stamps.known == 0 {
			t.Error("a stamp that counts does not")
		}
		if at(stepped, stamp, false); a.arrived != 0 || a.delayed || stamps.known != 0 || stamps.enough != 2*firstEnough {
			t.Errorf("%s: %+v, %d of %d", why, a, stamps.known, stamps.enough)
		}
	}
}
