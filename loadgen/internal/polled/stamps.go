package polled

import (
	"time"

	"lapse/timeline"
)

// stamps tell when replies arrived, by the kernel's stamps of them. Those are readings of the wall clock, which may
// be set at any time. So a stamp counts only where the wall clock went as the prober's did, from the look at it
// before the reply was read to the one before that.
type stamps struct {
	clock  timeline.Clock
	offset time.Duration // of the wall clock from the prober's, at the latest look
	steady bool          // it was the same at the look before

	known  int // replies in a row whose arrival time was known
	enough int // how many the thread wants before it relies on stamps
}

const (
	// wallTolerance is how far the wall clock may go astray between two looks, and how much later than it came a
	// reply may be said to have come. A daemon that slews the wall clock slews the monotonic one with it; what parts
	// them is a step, or that the thread is interrupted between reading the one and the other.
	wallTolerance = 10 * time.Microsecond
	// firstEnough and mostEnough bound stamps.enough, which doubles each time that the thread relied on stamps in vain.
	firstEnough = 16
	mostEnough  = 1 << 12
)

func newStamps(clock timeline.Clock) stamps { return stamps{clock: clock, enough: firstEnough} }

// reliable reports whether replies need not be read at once, for it will be known when they came.
func (t *stamps) reliable() bool { return t.known >= t.enough }

// look compares the clocks. now is fresh from time.Now.
func (t *stamps) look(now time.Time) {
	before := t.offset
	t.offset = time.Duration(now.UnixNano()) - now.Sub(t.clock.T0())
	t.steady = (t.offset - before).Abs() <= wallTolerance
}

// place returns when a reply, or a part of it, that was read at now had arrived: at the kernel's stamp, 0 for none. A
// stamp from before the request was sent or after now is none of its arrival: what a stamp means is changed by programs
// that shape packets.
func (t *stamps) place(sent time.Duration, stamp int64, now time.Duration) (at time.Duration, known bool) {
	at = time.Duration(stamp) - t.offset
	if !t.steady || stamp == 0 || at < sent-wallTolerance || at > now+wallTolerance {
		if t.reliable() {
			t.enough = min(2*t.enough, mostEnough)
		}
		t.known = 0
		return 0, false
	}
	t.known = min(t.known+1, mostEnough)
	return at + wallTolerance, true // never before it did
}
