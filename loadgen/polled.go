package loadgen

import (
	"net"
	"slices"
	"sync"
	"time"

	"lapse/timeline"
)

// A polledReader reads the replies of many connections from one thread, the pacing thread. Such a request costs one
// wake-up of one thread: a reply waits in the kernel until the thread wakes for the next request, a millisecond at
// most, and the kernel's stamp tells when it came. Most of a reader belongs to that thread.
type polledReader struct {
	poller  *poller // nil before Open, and where there is none
	stamps  stamps
	resting bool // in the last wait, a reply would not have woken the thread
	arrived []polledConn

	mu     sync.Mutex
	owners []polledOwner // those with connections that are polled, or that were
}

// A polledConn is a connection that the pacing thread reads.
type polledConn interface {
	// readable takes what has arrived. The pacing thread calls it.
	readable()
	// abandon ends what is open on it: nothing is read any more.
	abandon()
}

// A polledOwner has connections that the pacing thread reads.
type polledOwner interface {
	// expire ends the requests whose time is over, and returns when that of the next one is.
	expire(now time.Duration) (next time.Duration)
}

// mostArrived is how many sockets are read from before the pacing thread looks at its schedule again: a reply takes
// it some 5 µs.
const mostArrived = 32

func newPolledReader(clock timeline.Clock) *polledReader {
	return &polledReader{stamps: newStamps(clock)}
}

// open readies y for the run. After an error there is no polling.
func (y *polledReader) open() (err error) {
	y.poller, err = newPoller()
	return err
}

// works reports whether there is polling.
func (y *polledReader) works() bool { return y != nil && y.poller != nil }

// wait waits for d, or until a connection has ended, or, where the kernel's stamps do not tell when it comes, until
// there is a reply.
func (y *polledReader) wait(d time.Duration) {
	if y.resting = y.stamps.reliable(); y.resting {
		y.poller.waitForEnds(d)
		return
	}
	y.arrived = y.poller.wait(d, y.arrived[:0])
}

// rested reports whether, in the last wait, a reply would not have woken the thread.
func (y *polledReader) rested() bool { return y.resting }

// read reads what has arrived, for at most mostArrived connections. It reports whether there may be more.
func (y *polledReader) read() (more bool) {
	if y.resting {
		y.arrived = y.poller.wait(0, y.arrived[:0])
	}
	y.stamps.look(time.Now())
	for _, c := range y.arrived {
		c.readable()
	}
	more = len(y.arrived) == mostArrived
	y.arrived = y.arrived[:0]
	return more
}

// came returns when what was read at now of the reply to a request had arrived, which was sent at sent. stamp is the
// kernel's, 0 for none. If it is not known, delayed reports whether it may have waited for some time before it was
// read.
func (y *polledReader) came(sent time.Duration, stamp int64, now time.Duration) (at time.Duration, delayed bool) {
	at, known := y.stamps.place(sent, stamp, now)
	return at, !known && y.resting
}

// expire ends the requests whose time is over. It returns when that of the next one is, or next if that is before.
func (y *polledReader) expire(now, next time.Duration) time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, o := range y.owners {
		next = min(next, o.expire(now))
	}
	return next
}

// close ends what is still open: the requests of a Prober that was abandoned.
func (y *polledReader) close() {
	for _, c := range y.poller.close() {
		c.abandon()
	}
}

// add lets the requests of o expire, if it does not yet.
func (y *polledReader) add(o polledOwner) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if !slices.Contains(y.owners, o) {
		y.owners = append(y.owners, o)
	}
}

// remove ends what add began.
func (y *polledReader) remove(o polledOwner) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.owners = slices.DeleteFunc(slices.Clone(y.owners), func(known polledOwner) bool { return known == o })
}

// adopt takes tcp out of Go's poller, and calls closed when the result is closed. After an error tcp is as it was.
func (y *polledReader) adopt(tcp *net.TCPConn, closed func()) (*polledSocket, error) {
	return y.poller.polled(tcp, closed)
}

// watch begins to read c, whose socket is o.
func (y *polledReader) watch(o *polledSocket, c polledConn) error { return y.poller.watch(o, c) }
