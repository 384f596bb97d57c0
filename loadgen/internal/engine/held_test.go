package engine

import (
	"io"
	"testing"
	"time"

	"lapse/timeline"
)

func TestBackoffIsBounded(t *testing.T) {
	for _, test := range []struct {
		failed, conns int
		want          time.Duration
	}{{0, 1, 0}, {1, 1, 10 * time.Millisecond}, {2, 1, 20 * time.Millisecond}, {7, 1, 640 * time.Millisecond}, {8, 1, time.Second}, {1000, 1, time.Second}, {1000, 5000, 5 * time.Second}} {
		if got := backoff(test.failed, test.conns); got != test.want {
			t.Errorf("after %d failures of %d connections: %v, want %v", test.failed, test.conns, got, test.want)
		}
	}
	for range 1000 {
		if d := spread(time.Second); d < time.Second/2 || d > time.Second {
			t.Fatalf("a second is spread to %v", d)
		}
	}
}

func TestACutIsOurOwnDoingOnlyIfHeartbeatsCameLate(t *testing.T) {
	s, ms := time.Second, time.Millisecond
	for name, test := range map[string]struct {
		wait  heldWait
		class timeline.Class
		want  bool
	}{
		"never stopped":                            {heldWait{5 * s, 7 * s, 2 * s, 0}, timeline.EOF, false},
		"stopped, and the heartbeat was not due":   {heldWait{5 * s, 4 * s, 0, s}, timeline.EOF, false},
		"stopped when the heartbeat was due":       {heldWait{5 * s, 5*s + 200*ms, 0, s}, timeline.EOF, true},
		"stopped, and the last heartbeat was late": {heldWait{5 * s, 50 * ms, 300 * ms, s}, timeline.Reset, true},
		"hardly late":                              {heldWait{5 * s, 5*s + 50*ms, 60 * ms, s}, timeline.Reset, false},
		"silence, stopped for a part of it":        {heldWait{5 * s, 5 * s, 0, s}, timeline.TimeoutResponse, false},
		"silence, stopped for most of it":          {heldWait{5 * s, 5 * s, 0, 3 * s}, timeline.TimeoutResponse, true},
	} {
		if got := test.wait.byAStop(test.class); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A connection whose end was read takes no heartbeat: it would be written, and forgotten with the connection.
func TestAConnectionThatHasEndedTakesNoHeartbeat(t *testing.T) {
	for _, state := range []heldState{idle, overdue} {
		h := heldConn{held: &held{}, state: state}
		if step, err := h.woke(io.EOF); step != giveUp || err != io.EOF {
			t.Errorf("state %d: step %d, %v", state, step, err)
		}
		if class := h.send(Job{}); class != timeline.NoSlot {
			t.Errorf("state %d: a heartbeat is %v", state, class)
		}
		if step, err := h.woke(nil); step != giveUp || err != io.EOF {
			t.Errorf("state %d, once more: step %d, %v", state, step, err)
		}
	}
}

// A change that is noted after others were handed on, with the promise that none of before comes, is known from then
// on.
func TestAHeldChangeIsNotOfBeforeWhatWasPromised(t *testing.T) {
	const ms = time.Millisecond
	var c heldChanges
	c.Take([]timeline.Watermark{{Target: 1, Due: 200 * ms}, {Target: 2, Due: 300 * ms}})
	c.note(timeline.HeldChange{Target: 1, From: 120 * ms, At: 178 * ms})
	c.note(timeline.HeldChange{Target: 2, From: 120 * ms, At: 310 * ms})
	c.note(timeline.HeldChange{Target: 3, From: 120 * ms, At: 178 * ms})
	for i, change := range c.Take(nil).Changes {
		if want := []time.Duration{200 * ms, 310 * ms, 178 * ms}[i]; change.At != want || change.From != 120*ms {
			t.Errorf("%+v, want it at %v", change, want)
		}
	}
}
