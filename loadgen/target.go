package loadgen

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"lapse/timeline"
)

// An engine sends requests in one manner.
type engine interface {
	// prepare does what can be done before the first request, such as connecting ahead of need.
	prepare()
	// send sends a request that is due. It is called by the pacing thread and must not wait.
	send(job)
	// close waits for what is in flight, which takes no longer than the timeout, and releases everything.
	close()
}

// engines are the ways to send requests, by target kind.
var engines = map[timeline.TargetKind]func(*target) engine{}

func init() { // not in the declaration: newPlan, which the engines depend on, looks into it
	engines[timeline.New] = newFresh
	engines[timeline.Direct] = newFresh
	engines[timeline.Reused] = newPool
	engines[timeline.Control] = newPool
}

// A job is one request that is due.
type job struct {
	seq uint64
	due time.Duration
}

// A target is one target being measured.
type target struct {
	*plan
	clock    timeline.Clock
	log      *slog.Logger
	pulse    *pulse
	backends *backends
	peers    *peers
	errors   *errorTexts
	passed   *passedOver
	book     *book
	engine   engine
	perSec   atomic.Uint64 // the rate, as math.Float64bits
	prepared chan struct{} // closed when the engine is
	stopped  atomic.Bool   // Stop was called
	before   *target       // which had the same ID until it was stopped; nil if there was none
	ending   sync.Once

	delivered bool // its last requests were handed on; belongs to deliver

	place int // in the interval, see evenShare

	schedule schedule // belongs to the pacing thread
}

func (t *target) rate() float64        { return math.Float64frombits(t.perSec.Load()) }
func (t *target) setRate(rate float64) { t.perSec.Store(math.Float64bits(rate)) }

// maxOpen is how many requests may be open at once. In an honest open loop a stalled service
// collects rate × timeout of them; what exceeds this cap is a sign that we are being kept waiting.
func (t *target) maxOpen() int {
	if t.maxInUse > 0 {
		return t.maxInUse
	}
	return int(math.Ceil(t.rate()*t.timeout.Seconds())) + t.keep
}

// interval is the time between two due instants.
func (t *target) interval() time.Duration { return time.Duration(float64(time.Second) / t.rate()) }

// announce tells the book when the next request is due. Where a watermark has already passed that
// instant, the next one after it is taken.
func (t *target) announce() {
	for !t.book.expect(t.schedule.due()) {
		t.schedule.next += t.schedule.interval
	}
}

// send sends what is due at now. The pacing thread calls it.
func (t *target) send(now time.Duration) {
	for t.schedule.next <= now {
		j := job{seq: t.schedule.seq, due: t.schedule.due()}
		t.schedule.advance()
		t.book.opened(j.seq, j.due, t.schedule.due())
		if tooLate(j.due, now, t.schedule.interval) {
			t.refuse(j, timeline.NotSent)
			continue
		}
		t.engine.send(j)
	}
}

// end waits for what is in flight, once nothing paces t any more.
func (t *target) end() {
	t.ending.Do(func() {
		<-t.prepared
		t.engine.close()
		t.book.ended(t.clock.Now())
	})
}

// refuse ends a request that was not sent.
func (t *target) refuse(j job, class timeline.Class) {
	now := t.clock.Now()
	t.finish(j, now, now, timeline.Outcome{Class: class})
}

// finish ends a request, and returns it.
func (t *target) finish(j job, sent, done time.Duration, outcome timeline.Outcome) timeline.Request {
	r := timeline.Request{
		Target: t.id, Seq: j.seq, Due: j.due, Sent: floorMicros(sent), Done: ceilMicros(done), Outcome: outcome,
	}
	t.book.finished(r)
	return r
}

// An attempt is one request under way.
type attempt struct {
	job
	sent    time.Duration
	stopped time.Duration // for how long the prober had been stopped by then, in all
	written time.Duration // when the request had been handed to the kernel; 0 before
	held    time.Duration // for how long the prober was stopped between sent and written
	outcome timeline.Outcome
}

// deadline is when the attempt has failed for want of an answer.
func (t *target) deadline(a *attempt) time.Duration { return a.sent + t.timeout }

// failed ends an attempt that met an error in phase ph. c is its connection, if it has one.
func (t *target) failed(a *attempt, err error, ph phase, c *conn) {
	done := t.clock.Now()
	a.outcome.Class = classify(err, ph)
	if t.ours(a, err, done, ph, c) {
		a.outcome.Class, err = timeline.Local, errStopped
	}
	t.errors.tell(t.name, t.finish(a.job, a.sent, done, a.outcome), err)
}

// errStopped is what is said of a request that a stop of our own ended, whatever its connection says.
var errStopped = errors.New("the prober was stopped")

// ours reports whether the error of a may be the doing of a stop of our own: a wait that ended while the prober did not
// run, or a peer that would wait for it no longer. All else the peer says of itself, whenever it is read: it refuses, or its
// name does not exist, or its certificate is wrong.
func (t *target) ours(a *attempt, err error, now time.Duration, ph phase, c *conn) bool {
	switch class := a.outcome.Class; {
	case class == timeline.DNS && isTimeout(err):
		return lookUpMissed(now-a.sent, t.pulse.stopped(now)-a.stopped, now-t.deadline(a))
	case class.Timeout():
		return t.missed(a, now, ph, c)
	case class == timeline.Reset, class == timeline.EOF, class == timeline.TLS && isPeersAlert(err):
		return t.keptWaiting(a, now, ph)
	}
	return false
}

// peersPatience is how long a peer waits for a client at the very least. Servers' time limits for handshakes and headers are
// seconds; no stop shorter than this excuses a connection that was closed on us.
const peersPatience = 100 * time.Millisecond

// keptWaiting reports whether a stop of our own may have made the peer give up: the prober was stopped for most of the
// attempt's time while it was our turn. Once the request is written, it is the peer's.
func (t *target) keptWaiting(a *attempt, now time.Duration, ph phase) bool {
	held := a.held
	if ph < awaiting {
		held = t.pulse.stopped(now) - a.stopped
	}
	return ph <= awaiting && held > max(peersPatience, (now-a.sent)/2)
}

// lookUpMissed reports whether a look-up that took so long without an answer may be our own fault: the prober was stopped for more
// than a quarter of that, or noticed as much too late that the time was over. A name server that has not answered in the rest of it
// is silent: that the last milliseconds were not ours says nothing else.
func lookUpMissed(took, stopped, overdue time.Duration) bool { return max(stopped, overdue) > took/4 }

// missed reports whether a timeout may be our own fault, because the prober was stopped
// or got too little of the CPU. A service that stalls keeps its timeouts: whether it answered is known from the kernel, which
// was not stopped.
func (t *target) missed(a *attempt, now time.Duration, ph phase, c *conn) bool {
	stopped := t.pulse.stopped(now) - a.stopped
	overdue := now-t.deadline(a) > shortestStop
	switch {
	case stopped == 0 && !overdue:
		return false
	case ph < awaiting: // whether the peer did its part, a socket does not tell that is no longer there
		return overdue || t.asleep(a, now) || stopped > (now-a.sent)*3/4
	}
	return c.waiting() || now-a.written < t.timeout*3/4 // it came unseen, or had too little time to
}

// asleep reports whether the prober was stopped when the attempt's time was over.
func (t *target) asleep(a *attempt, now time.Duration) bool {
	since, seen := t.pulse.lastStop(now)
	deadline := t.deadline(a)
	return since < deadline && deadline <= seen+longestSleep
}

// answered ends an attempt whose reply was read whole. A stop of ours may have delayed when we read it: it was answered all
// the same, unless that was after the timeout, of which we then cannot tell whether the answer kept it.
func (t *target) answered(a *attempt, r *reply) {
	done := t.clock.Now()
	var err error
	a.outcome.Class, err = t.judge(r)
	overdue, overslept := done-t.deadline(a), t.overslept(a, done)
	switch {
	case a.outcome.Class != timeline.OK:
	case overdue > shortestStop, overdue > 0 && overslept:
		a.outcome.Class, err = timeline.Local, errStopped
	case overdue > 0: // it came before we had given up
		a.outcome.Class = timeline.TimeoutResponse
	default:
		a.outcome.Delayed = overslept
	}
	t.errors.tell(t.name, t.finish(a.job, a.sent, done, a.outcome), err)
}

// overslept reports whether what a took is for a good part the doing of our own stops: more than the precision to which
// they are known, and more than a tenth. To call the answer slow would put them on the service.
func (t *target) overslept(a *attempt, done time.Duration) bool {
	return t.slept(a, done) > max(shortestStop, (done-a.sent)/10)
}

// slept is by how much longer a may seem to have taken than it did, because the prober was stopped. A stop while an answer
// was awaited adds nothing where the prober ran again well before that came; one before the request was written always does.
//
//	written   stop          stop's end   caught up
//	|.........|-------------|............|............
//	    known     not known: it lay there     known
func (t *target) slept(a *attempt, now time.Duration) time.Duration {
	since, seen := t.pulse.lastStop(now)
	caughtUp := seen + max(shortestStop, (seen-since)/4) // what had piled up is read by then
	if a.written+a.outcome.FirstByte.Duration() > caughtUp {
		return a.held
	}
	return t.pulse.stopped(now) - a.stopped
}

// note takes over what a reply tells, even where it is not whole.
func (t *target) note(a *attempt, r *reply) {
	if r.inBody {
		a.outcome.Code = uint16(r.status)
	}
	a.outcome.Backend = t.backends.id(r.backend)
}

// exchange reads the reply to a request that was written, if one is awaited, and ends the request. It reports whether
// the connection can carry another.
func (t *target) exchange(a *attempt, c *conn, r *reply) (again bool) {
	if !t.awaits() {
		t.answered(a, r)
		return false
	}
	if _, err := c.br.Peek(1); err != nil {
		t.failed(a, err, awaiting, c)
		return false
	}
	return t.receive(a, c, r)
}

// receive reads a reply whose first byte is here.
func (t *target) receive(a *attempt, c *conn, r *reply) (again bool) {
	a.outcome.FirstByte = timeline.MicrosOf(t.clock.Now() - a.written)
	err := t.read(c.br, r)
	t.note(a, r)
	if err != nil {
		t.failed(a, err, replyPhase(r), c)
		return false
	}
	t.answered(a, r)
	return !r.last && c.br.Buffered() == 0
}

func replyPhase(r *reply) phase {
	if r.inBody {
		return receiving
	}
	return awaiting
}

// open dials and writes the first request on the new connection. After a failure the attempt is over,
// and no connection is returned.
func (t *target) open(a *attempt) *conn {
	a.sent = t.clock.Now()
	a.stopped = t.pulse.stopped(a.sent)
	if tooLate(a.due, a.sent, t.interval()) {
		t.finish(a.job, a.sent, a.sent, timeline.Outcome{Class: timeline.NotSent})
		return nil
	}
	c, d, err := t.dial(t.deadline(a))
	a.outcome.Phases, a.outcome.Peer = d.took, d.peer
	if err != nil {
		t.failed(a, err, d.phase, nil)
		return nil
	}
	if err := t.write(a, c); err != nil {
		t.failed(a, err, sending, c)
		c.abort()
		return nil
	}
	return c
}

// write writes the request, if there is one to write, and sets the time by which its reply must be here.
func (t *target) write(a *attempt, c *conn) error {
	if err := c.SetDeadline(t.clock.Wall(t.deadline(a))); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	var err error
	if len(t.message) > 0 {
		_, err = c.Write(t.message)
	}
	a.written = t.clock.Now()
	a.held = t.pulse.stopped(a.written) - a.stopped
	return err
}
