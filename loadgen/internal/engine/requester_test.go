package engine

import (
	"io"
	"log/slog"
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/stall"
	"lapse/timeline"
)

// aRequester returns a requester of target 1, which shares nothing with others.
func aRequester(clock timeline.Clock, rate float64) *Requester {
	q := &Requester{Inflight: newInflight(&stall.Detector{})}
	q.Compiled = &protocol.Compiled{ID: 1, Timeout: protocol.DefaultTimeout}
	q.Shared = Shared{Clock: clock, Log: slog.New(slog.DiscardHandler), Stalls: &stall.Detector{}, Notes: &Notes{}}
	q.SetRate(rate)
	return q
}

// A service that takes its time has as many requests open as are sent meanwhile. When the rate is lowered, they are still
// open, and the next one is not refused for that.
func TestALowerRateRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := aRequester(timeline.StartClock(), 200)
		most := q.MaxOpen()
		expect := func(after time.Duration, want int) {
			t.Helper()
			if time.Sleep(after); q.MaxOpen() != want {
				t.Errorf("%d requests may be open, want %d", q.MaxOpen(), want)
			}
		}
		open := q.Timeout + stall.Reprieve
		q.SetRate(100)
		expect(open/2, most)
		q.SetRate(5)
		expect(open-time.Millisecond, most)
		expect(time.Millisecond, int(math.Ceil(5*open.Seconds())))
		q.SetRate(200)
		expect(0, most)
		q.SetRate(5)
		q.SetRate(400)
		expect(0, int(math.Ceil(400*open.Seconds())))
	})
}

// overHTTP2 returns a connection of HTTP/2 after both prefaces, and its other end.
func overHTTP2(t *testing.T) (*protocol.Conn, *net.TCPConn) {
	t.Helper()
	plan, err := protocol.Compile(probe(1, timeline.New, "h2c://web/", 10))
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := loadtest.TCPPair(t)
	peer := http2.NewFramer(theirs, theirs)
	if err := peer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	c := protocol.NewConn(ours)
	if c.Dialog, err = plan.Stateful.Begin(&c.Conn); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(theirs, make([]byte, len(http2.ClientPreface))); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := peer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := f.(*http2.SettingsFrame); ok && s.IsAck() {
			return c, theirs
		}
	}
}
