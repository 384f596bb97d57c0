package polled

import (
	"net"
	"slices"
	"sync"
	"time"

	"lapse/timeline"
)

// A Reader reads the replies of many connections from one thread, the pacing thread. Such a request costs one
// wake-up of one thread: a reply waits in the kernel until the thread wakes for the next request, a millisecond at
// most, and the kernel's stamp tells when it came. Most of a reader belongs to that thread.
type Reader struct {
	poller  *poller // nil before Open, and where there is none
	stamps  stamps
	resting bool // in the last wait, a reply would not have woken the thread
	arrived []Conn

	mu     sync.Mutex
	owners []Owner // those with connections that are polled, or that were
}

// An Owner has connections that the pacing thread reads.
type Owner interface {
	// Expire ends the requests whose time is over, and returns when that of the next one is.
	Expire(now time.Duration) (next time.Duration)
}

// NewReader returns a reader of replies, before [Reader.Open].
func NewReader(clock timeline.Clock) *Reader {
	return &Reader{stamps: newStamps(clock)}
}

// Open readies y for the run. After an error there is no polling.
func (y *Reader) Open() (err error) {
	y.poller, err = newPoller()
	return err
}

// Works reports whether there is polling.
func (y *Reader) Works() bool { return y != nil && y.poller != nil }

// Wait waits for d, or until a connection has ended, or, where the kernel's stamps do not tell when it comes, until
// there is a reply.
func (y *Reader) Wait(d time.Duration) {
	if y.resting = y.stamps.reliable(); y.resting {
		y.poller.waitForEnds(d)
		return
	}
	y.arrived = y.poller.wait(d, y.arrived[:0])
}

// Rested reports whether, in the last wait, a reply would not have woken the thread.
func (y *Reader) Rested() bool { return y.resting }

// Read reads what has arrived, for at most mostArrived connections. It reports whether there may be more.
func (y *Reader) Read() (more bool) {
	if y.resting {
		y.arrived = y.poller.wait(0, y.arrived[:0])
	}
	y.stamps.look(time.Now())
	for _, c := range y.arrived {
		c.Readable()
	}
	more = len(y.arrived) == mostArrived
	y.arrived = y.arrived[:0]
	return more
}

// Came returns when what was read at now of the reply to a request had arrived, which was sent at sent. stamp is the
// kernel's, 0 for none. If it is not known, delayed reports whether it may have waited for some time before it was
// read.
func (y *Reader) Came(sent time.Duration, stamp int64, now time.Duration) (at time.Duration, delayed bool) {
	at, known := y.stamps.place(sent, stamp, now)
	return at, !known && y.resting
}

// expire ends the requests whose time is over. It returns when that of the next one is, or next if that is before.
func (y *Reader) expire(now, next time.Duration) time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, o := range y.owners {
		next = min(next, o.Expire(now))
	}
	return next
}

// Until reads what has arrived, if a reply would not have woken the thread, ends the requests whose time is over at
// now, and returns when that of the next one is, or next if that is before. It returns 0 if there may be more to read:
// a reply that is still to be read may be one whose time is over. watch is called before it reads.
func (y *Reader) Until(now, next time.Duration, watch func()) time.Duration {
	if y.resting {
		watch()
		if y.Read() {
			return 0
		}
	}
	return y.expire(now, next)
}

// Close ends what is still open: the requests of a Prober that was abandoned.
func (y *Reader) Close() {
	for _, c := range y.poller.close() {
		c.Abandon()
	}
}

// Add lets the requests of o expire, if it does not yet.
func (y *Reader) Add(o Owner) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if !slices.Contains(y.owners, o) {
		y.owners = append(y.owners, o)
	}
}

// Remove ends what add began.
func (y *Reader) Remove(o Owner) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.owners = slices.DeleteFunc(slices.Clone(y.owners), func(known Owner) bool { return known == o })
}

// Adopt takes tcp out of Go's poller, and calls closed when the result is closed. After an error tcp is as it was.
func (y *Reader) Adopt(tcp *net.TCPConn, closed func()) (*Socket, error) {
	return y.poller.polled(tcp, closed)
}

// Watch begins to read c, whose socket is o.
func (y *Reader) Watch(o *Socket, c Conn) error { return y.poller.watch(o, c) }
