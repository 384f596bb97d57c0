package engine

import (
	"bufio"
	"log/slog"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/stall"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// stoodStill returns a target whose prober has stood still from 1 ms to 600 ms, and a request to it that was sent at
// 10 ms and had 100 ms.
func stoodStill(t *testing.T) (*Requester, attempt) {
	t.Helper()
	clock := timeline.StartClock()
	target := aRequester(clock, 100)
	asked := probe(1, timeline.Reused, "http://127.0.0.1:80/", 100)
	asked.Timeout = 100 * ms
	plan, err := protocol.Compile(asked)
	if err != nil {
		t.Fatal(err)
	}
	target.Compiled, target.Log = plan, slog.New(slog.DiscardHandler)
	target.Inflight.Opened(0, 0, 10*ms)
	time.Sleep(ms)
	target.Stalls.Beat(clock.Now())
	time.Sleep(9 * ms)
	a := target.attempt(Job{}, clock.Now())
	a.written = clock.Now()
	time.Sleep(590 * ms)
	target.Stalls.Beat(clock.Now())
	return target, a
}

// onlyOutcome returns how the target's only request ended; nil if it has not.
func (t *Requester) onlyOutcome() *timeline.Request {
	requests, _, _ := t.Inflight.Take(nil, t.Clock.Now())
	if len(requests) == 0 {
		return nil
	}
	return &requests[0]
}

// Where the whole machine stood still, a server on it replies only when it runs again. Such a reply is awaited for a
// while, and is no failure of the server's; one that does not come is.
func TestReplyIsAwaitedAfterAStopInWhichItsTimeWasOver(t *testing.T) {
	for _, row := range []struct {
		name    string
		replies time.Duration // after the stop; 0: never
		want    timeline.Class
		done    time.Duration // after the stop
	}{
		{"it replies when it runs again", 30 * ms, timeline.Local, 30 * ms},
		{"it stays silent", 0, timeline.TimeoutResponse, stall.Reprieve},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				defer theirs.Close()
				target, a := stoodStill(t)
				c := &protocol.Conn{Conn: wire.Conn{Conn: ours, Br: bufio.NewReader(ours)}}
				_ = ours.SetDeadline(target.Clock.Wall(target.deadline(&a)))
				begun := target.Clock.Now()
				if row.replies > 0 {
					go func() {
						time.Sleep(row.replies)
						_, _ = theirs.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
					}()
				}
				err := target.awaitReply(&a, c)
				if err != nil {
					target.failed(&a, err, wire.Awaiting, nil)
				} else {
					_, _ = target.receive(&a, c, new(protocol.Reply))
				}
				if r := target.onlyOutcome(); r == nil || r.Class != row.want || r.Done-begun != row.done {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// The same on a connection that the pacing thread reads.
func TestPolledReplyIsAwaitedAfterAStopInWhichItsTimeWasOver(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // nothing is polled on this system
	}
	for _, replies := range []bool{true, false} {
		ours, theirs := loadtest.TCPPair(t)
		synctest.Test(t, func(t *testing.T) {
			target, a := stoodStill(t)
			target.Polling = NewPolling(target.Clock)
			if err := target.Polling.Open(); err != nil {
				t.Fatal(err)
			}
			defer target.Polling.Close()
			p := newPool(target)
			s := &poolConn{pool: p, slot: &connSlot{}, conn: protocol.NewConn(ours)}
			if !s.adopt() {
				t.Fatal("not adopted")
			}
			s.watch()
			s.state, s.attempt, p.inUse = busy, a, 1
			p.expect(s)
			now := target.Clock.Now()
			if next := p.Expire(now); next != now+stall.Reprieve || target.onlyOutcome() != nil {
				t.Fatalf("next at %v", next)
			}
			want := timeline.TimeoutResponse
			if replies {
				want = timeline.Local
				if _, err := theirs.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
					t.Fatal(err)
				}
				s.Readable()
			} else {
				time.Sleep(stall.Reprieve)
				p.Expire(target.Clock.Now())
			}
			if r := target.onlyOutcome(); r == nil || r.Class != want {
				t.Errorf("%+v, want %s", r, want)
			}
		})
	}
}

// A connection that a goroutine serves waits on as well, once.
func TestServedReplyIsAwaitedAfterAStopInWhichItsTimeWasOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		target, a := stoodStill(t)
		p := newPool(target)
		s := &poolConn{pool: p, slot: &connSlot{}, conn: &protocol.Conn{Conn: wire.Conn{Conn: ours}}, state: busy, attempt: a}
		if got := s.woke(os.ErrDeadlineExceeded); got != parked {
			t.Errorf("%d after the stop", got)
		}
		time.Sleep(stall.Reprieve)
		if got := s.woke(os.ErrDeadlineExceeded); got != busy {
			t.Errorf("%d after the reprieve", got)
		}
	})
}

// So is the rest of a reply that has begun, on whatever connection a goroutine reads.
func TestRestOfAReplyIsAwaitedAfterAStopInWhichItsTimeWasOver(t *testing.T) {
	for _, row := range []struct {
		name  string
		comes time.Duration // after the stop; 0: never
		want  timeline.Class
		done  time.Duration // after the stop
	}{
		{"it comes when the server runs again", 30 * ms, timeline.Local, 30 * ms},
		{"it stays away", 0, timeline.TimeoutResponse, stall.Reprieve},
	} {
		t.Run(row.name, func(t *testing.T) {
			quiet, _ := loadtest.TCPPair(t) // a pipe has no socket to look at: nothing has arrived on this one
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				defer theirs.Close()
				target, a := stoodStill(t)
				c := &protocol.Conn{Conn: wire.Conn{Conn: ours, Below: quiet}}
				c.Br = bufio.NewReader(c)
				_ = ours.SetReadDeadline(time.Time{})
				go func() { _, _ = theirs.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")) }()
				if _, err := c.Br.Peek(1); err != nil { // what had come before the stop
					t.Fatal(err)
				}
				_ = ours.SetReadDeadline(target.Clock.Wall(target.deadline(&a)))
				begun := target.Clock.Now()
				if row.comes > 0 {
					go func() {
						time.Sleep(row.comes)
						_, _ = theirs.Write([]byte("llo"))
					}()
				}
				_, _ = target.receive(&a, c, new(protocol.Reply))
				if r := target.onlyOutcome(); r == nil || r.Class != row.want || r.Done-begun != row.done {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// heldStill returns a held connection of a target that has stood still: see stoodStill. Its next heartbeat was due in
// the stop as well.
func heldStill(t *testing.T, ours *net.TCPConn, state heldState) (*heldConn, *Requester) {
	t.Helper()
	target, a := stoodStill(t)
	e := newHeld(target)
	e.conns = make([]heldConn, 50)
	h := &e.conns[0]
	h.held, h.state, h.attempt, h.conn = e, state, a, protocol.NewConn(ours)
	if next := a.sent + e.beat(); next > target.Clock.Now() {
		t.Fatalf("the next heartbeat is due at %v", next)
	}
	return h, target
}

// The answer to a heartbeat on a connection that is held is awaited likewise. Until that is over, neither the
// heartbeat has failed nor is the connection cut.
func TestHeartbeatIsAwaitedAfterAStopInWhichItsTimeWasOver(t *testing.T) {
	for _, answers := range []bool{true, false} {
		ours, theirs := loadtest.TCPPair(t)
		synctest.Test(t, func(t *testing.T) {
			h, target := heldStill(t, ours, awaitingAnswer)
			if step, _ := h.woke(os.ErrDeadlineExceeded); step != waitOn || target.onlyOutcome() != nil {
				t.Fatalf("step %d at the end of the stop", step)
			}
			want, then := timeline.TimeoutResponse, overdue
			if answers {
				want, then = timeline.Local, idle
				if _, err := theirs.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
					t.Fatal(err)
				}
				step, err := h.woke(h.conn.Await())
				if step == readAnswer {
					step, err = h.readAnswer(new(protocol.Reply))
				}
				if step != waitOn {
					t.Errorf("step %d: %v", step, err)
				}
			} else {
				time.Sleep(stall.Reprieve)
				if step, _ := h.woke(os.ErrDeadlineExceeded); step != waitOn {
					t.Errorf("step %d after the reprieve", step)
				}
			}
			if r := target.onlyOutcome(); r == nil || r.Class != want || h.state != then {
				t.Errorf("%+v, state %d", r, h.state)
			}
		})
	}
}

// A connection is not given up for silence in the moment in which a stop ends: once, it gets some more time.
func TestHeldConnectionIsNotCutByAStopInWhichItsTimeWasOver(t *testing.T) {
	ours, _ := loadtest.TCPPair(t)
	synctest.Test(t, func(t *testing.T) {
		h, _ := heldStill(t, ours, overdue)
		if step, _ := h.woke(os.ErrDeadlineExceeded); step != waitOn {
			t.Errorf("step %d at the end of the stop", step)
		}
		time.Sleep(stall.Reprieve)
		if step, _ := h.woke(os.ErrDeadlineExceeded); step != giveUp {
			t.Errorf("step %d after the reprieve", step)
		}
	})
}

// A stream of HTTP/2 has its time from a timer, whichever frames come meanwhile.
func TestStreamIsAwaitedAfterAStopInWhichItsTimeWasOver(t *testing.T) {
	ours, _ := overHTTP2(t)
	synctest.Test(t, func(t *testing.T) {
		target, a := stoodStill(t)
		e := newStreams(target)
		c := &streamConn{engine: e, conn: ours, http2: ours.Dialog.(*protocol.HTTP2Conn)}
		s := c.stream()
		s.attempt = a
		c.http2.Begin(&s.HTTP2Stream)
		s.StartReply(&s.reply)
		e.wg.Add(1)
		begun := target.Clock.Now()
		c.expire()
		if r := target.onlyOutcome(); r != nil {
			t.Fatalf("%+v at the end of the stop", r)
		}
		time.Sleep(stall.Reprieve)
		synctest.Wait()
		if r := target.onlyOutcome(); r == nil || r.Class != timeline.TimeoutResponse ||
			r.Done-begun != stall.Reprieve {
			t.Errorf("%+v", r)
		}
	})
}
