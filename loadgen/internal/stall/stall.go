package stall

import (
	"errors"
	"sync/atomic"
	"time"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

const (
	// LongestSleep is how long the pacing thread sleeps at most while anything is in flight. A stop of the prober is
	// known to this precision.
	LongestSleep = time.Millisecond
	// PeersPatience is how long a peer waits for a client at the very least. Servers' time limits for handshakes and
	// headers are seconds; no shorter stop excuses a connection that was closed on us.
	PeersPatience = 100 * time.Millisecond
)

// Reprieve is how long a reply is awaited after a stop in which its time was over. Where the whole machine stood
// still, as a virtual machine that its host pauses, a server on it did not run either, and replies only now.
const Reprieve = 100 * time.Millisecond

// ErrStopped is the error of a request that a stop of the prober ended, whatever its connection says.
var ErrStopped = errors.New("the prober was stopped")

// A Stop is a time in which the prober did not run. It is known to the millisecond.
type Stop struct{ since, seen time.Duration }

// A Detector keeps the stops of the prober. The pacing thread beats; others ask.
type Detector struct {
	last  atomic.Int64 // when the pacing thread last ran, or when it means to run after a rest
	since atomic.Int64 // of the latest stop
	seen  atomic.Int64 // its end
	total atomic.Int64 // of all stops
	open  atomic.Int64 // what a stop would disturb
}

// Begun notes that something is under way which a stop would disturb: a request, most often.
func (d *Detector) Begun() { d.open.Add(1) }

// Over notes that so many of them are over.
func (d *Detector) Over(n int) { d.open.Add(int64(-n)) }

// Watches reports whether anything is under way which a stop would disturb.
func (d *Detector) Watches() bool { return d.open.Load() > 0 }

// Beat notes that the pacing thread runs.
func (d *Detector) Beat(now time.Duration) {
	last := d.last.Swap(int64(now))
	if last > 0 && int64(now)-last > int64(timeline.ShortestStop) {
		d.since.Store(last)
		d.seen.Store(int64(now))
		d.total.Add(int64(now) - last)
	}
}

// Rest notes that the pacing thread does not run until an instant, as nothing is in flight. It is no stop.
func (d *Detector) Rest(until time.Duration) { d.last.Store(int64(until)) }

// current returns the stop that has ended just now, if the caller runs before the pacing thread does.
func (d *Detector) current(now time.Duration) (Stop, bool) {
	last := time.Duration(d.last.Load())
	return Stop{last, now}, last > 0 && now-last > timeline.ShortestStop
}

// Stopped returns how long the prober had been stopped by now, in all.
func (d *Detector) Stopped(now time.Duration) time.Duration {
	total := time.Duration(d.total.Load())
	if s, ok := d.current(now); ok {
		total += s.seen - s.since
	}
	return total
}

// Latest returns the latest stop as of now.
func (d *Detector) Latest(now time.Duration) Stop {
	if s, ok := d.current(now); ok {
		return s
	}
	return Stop{time.Duration(d.since.Load()), time.Duration(d.seen.Load())}
}

// A Course is what happened to a request until now, and how much of that time the prober was stopped.
type Course struct {
	Sent     time.Duration
	Written  time.Duration // when the request had been handed to the kernel
	Answered time.Duration // when the first byte of the reply was read
	Deadline time.Duration // when the request has failed for want of an answer
	Now      time.Duration

	Held    time.Duration // stopped between sent and written
	Stopped time.Duration // stopped between sent and now
	Latest  Stop
	Unread  bool // bytes of the reply have arrived and were not read
}

// BlamesUs reports whether err, which ended a request in phase ph and is of a class, may be the doing of a stop: a
// wait that ended while the prober did not run, or a peer that would wait for it no longer. A refusal, a missing name
// or a wrong certificate is the peer's own answer, whenever it is read.
func (c Course) BlamesUs(class timeline.Class, err error, ph wire.Phase) bool {
	switch {
	case class == timeline.DNS && wire.IsTimeout(err):
		return c.missedLookUp()
	case class.Timeout() && ph < wire.Awaiting:
		return c.missedConnection()
	case class.Timeout():
		return c.missedReply()
	case class == timeline.Reset, class == timeline.EOF, class == timeline.TLS && wire.IsPeersAlert(err):
		return c.keptPeerWaiting(ph)
	}
	return false
}

// missedLookUp reports whether a look-up without an answer may be our own fault: the prober was stopped for more than
// a quarter of its time, or noticed as much too late that the time was over. A name server that has not answered in
// the rest of it is silent: a short stop at its end says nothing else.
func (c Course) missedLookUp() bool { return c.stoppedLong() }

// stoppedLong reports whether the prober was stopped for more than a quarter of the request's time, or noticed as much
// too late that it was over.
func (c Course) stoppedLong() bool {
	return max(c.Stopped, c.Now-c.Deadline) > (c.Now-c.Sent)/4
}

// missedConnection reports whether a timeout before the request was written may be our own fault: the prober was
// stopped at its end for more than a tenth of its time, or for most of it. Whether the peer did its part cannot be
// asked of a socket that is closed. A peer that did not in the rest of the time is silent.
func (c Course) missedConnection() bool {
	waited := c.Now - c.Sent
	atEnd := c.overdue() || c.Stopped > 0 && c.StoppedAtDeadline()
	return atEnd && max(c.Stopped, c.Now-c.Deadline) > waited/10 || c.Stopped > waited*3/4
}

// missedReply reports whether a timeout of the reply may be our own fault: the reply arrived and was not read, or stops
// of more than a quarter of the time left the peer too little of it. A service that stalls keeps its timeouts: whether
// it answered is known from the kernel, which was not stopped.
func (c Course) missedReply() bool {
	if c.Stopped == 0 && !c.overdue() {
		return false
	}
	timeout := c.Deadline - c.Sent
	return c.Unread || c.stoppedLong() && c.Now-c.Written < timeout*3/4
}

// keptPeerWaiting reports whether a stop may have made the peer give up: the prober was stopped for most of the
// request's time while it was its turn. Once the request is written, it is the peer's.
func (c Course) keptPeerWaiting(ph wire.Phase) bool {
	ours := c.Held
	if ph < wire.Awaiting {
		ours = c.Stopped
	}
	return ph <= wire.Awaiting && ours > max(PeersPatience, (c.Now-c.Sent)/2)
}

// overdue reports whether the end of the time was noticed much too late.
func (c Course) overdue() bool { return c.Now-c.Deadline > timeline.ShortestStop }

// StoppedAtDeadline reports whether the prober was stopped when the time was over.
func (c Course) StoppedAtDeadline() bool {
	return c.Latest.since < c.Deadline && c.Deadline <= c.Latest.seen+LongestSleep
}

// Answer returns the class of a good answer, and whether a stop may have delayed when it was read. It is an answer all
// the same, unless it was read after the timeout because of a stop: whether it came in time is not known then.
func (c Course) Answer() (class timeline.Class, delayed bool) {
	switch late := c.Now > c.Deadline; {
	case c.overdue(), late && c.overslept():
		return timeline.Local, false
	case late: // it came before we had given up
		return timeline.TimeoutResponse, false
	}
	return timeline.OK, c.overslept()
}

// overslept reports whether what an answer took is for a good part the doing of stops: more than the precision to which
// they are known, and more than a tenth.
func (c Course) overslept() bool {
	return c.added() > max(timeline.ShortestStop, (c.Now-c.Sent)/10)
}

// added returns how much longer a request may seem to have taken than it did, because the prober was stopped. A stop
// while an answer was awaited adds nothing where the prober ran again well before that came; one before the request
// was written always does.
//
//	written   stop          stop's end   caught up
//	|.........|-------------|............|............
//	    known     not known: it lay there     known
func (c Course) added() time.Duration {
	// what had piled up is read by then
	caughtUp := c.Latest.seen + max(timeline.ShortestStop, (c.Latest.seen-c.Latest.since)/4)
	if c.Answered > caughtUp {
		return c.Held
	}
	return c.Stopped
}

// Excuses reports whether a connection that failed between begun and over may have failed because of s: the prober was
// stopped when it was given up, or for most of the time that it had.
func (s Stop) Excuses(begun, over time.Duration) bool {
	within := min(s.seen, over) - max(s.since, begun)
	return within > 0 && (over <= s.seen+LongestSleep || within > (over-begun)/2)
}
