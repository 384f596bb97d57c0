package polled

import (
	"testing"
	"time"

	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
	"lapse/timeline/stepped"
)

// aWatchedConn is a connection that was adopted by a reader.
type aWatchedConn struct{}

func (*aWatchedConn) Readable() {}

func (*aWatchedConn) Abandon() {}

// While the stamps are reliable the end of a connection wakes the pacing thread, and bytes do not.
func TestEndsWakeThePacingThreadAndBytesDoNot(t *testing.T) {
	t.Parallel()
	ours, theirs := loadtest.TCPPair(t)
	y := NewReader(timeline.StartClock())
	if err := y.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(y.Close)
	o, err := y.Adopt(ours, func() {})
	if err != nil {
		t.Fatal(err)
	}
	c := &aWatchedConn{}
	if err := y.Watch(o, c); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	const rest = 5 * time.Millisecond
	longest := time.Duration(0)
	for range 20 { // Go's own signals wake the thread, too
		begun := time.Now()
		y.poller.waitForEnds(rest)
		longest = max(longest, time.Since(begun))
	}
	if longest < rest {
		t.Errorf("of 20 waits, bytes ended each within %v", longest)
	}
	if arrived := y.poller.wait(0, nil); len(arrived) != 1 || arrived[0] != Conn(c) {
		t.Errorf("arrived for %v", arrived)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	const long = time.Hour
	begun := time.Now()
	y.poller.waitForEnds(long)
	if took := time.Since(begun); took > long/2 {
		t.Errorf("woken by the end after %v", took)
	}
}

// A stamp counts only where the wall clock has not been set since the look before. Where one did not count, the
// thread reads at once for a while, and the longer the more often that happens.
func TestStampsCountOnlyWhileTheWallClockIsSteady(t *testing.T) {
	clock := timeline.StartClock()
	y := NewReader(clock)
	stamps := &y.stamps
	type arrival struct {
		sent, arrived time.Duration
		delayed       bool
	}
	a := &arrival{sent: clock.Now()}
	at := func(now time.Time, stamp int64, rested bool) {
		stamps.look(now)
		y.resting = rested
		a.arrived, a.delayed = y.Came(a.sent, stamp, now.Sub(clock.T0()))
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
		if at(stepped, stamp, false); a.arrived != 0 || a.delayed || stamps.known != 0 ||
			stamps.enough != 2*firstEnough {
			t.Errorf("%s: %+v, %d of %d", why, a, stamps.known, stamps.enough)
		}
	}
}
