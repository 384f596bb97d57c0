package loadgen

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"lapse/timeline"
)

// A requester makes the requests of one target and books how they end. Engines choose the connections for it.
type requester struct {
	*compiledProbe
	shared
	inflight  *inflight
	perSecond atomic.Uint64 // the rate, as math.Float64bits
}

// A shared is what the requesters of a prober have in common.
type shared struct {
	clock   timeline.Clock
	log     *slog.Logger
	stalls  *stallDetector
	polling *polling // nil for none
	*notes
}

// newRequester returns the requester of a target, and its engine.
func newRequester(probe *compiledProbe, rate float64, s shared) (*requester, engine) {
	q := &requester{compiledProbe: probe, shared: s, inflight: newInflight()}
	q.log = s.log.With("target", probe.name)
	q.setRate(rate)
	return q, engines[probe.kind](q)
}

func (q *requester) rate() float64        { return math.Float64frombits(q.perSecond.Load()) }
func (q *requester) setRate(rate float64) { q.perSecond.Store(math.Float64bits(rate)) }

// interval is the time between two due instants.
func (q *requester) interval() time.Duration {
	return time.Duration(float64(time.Second) / q.rate())
}

// maxOpen is how many requests may be open at once. In an honest open loop a stalled service collects rate × timeout
// of them, and some more after a stop of the prober (see reprieve); what exceeds this cap is a sign that the service
// lets us wait.
func (q *requester) maxOpen() int {
	if q.maxInUse > 0 {
		return q.maxInUse
	}
	return int(math.Ceil(q.rate()*(q.timeout+reprieve).Seconds())) + q.keep
}

// A job is one request that is due.
type job struct {
	seq uint64
	due time.Duration
}

// An attempt is one request under way.
type attempt struct {
	job
	sent      time.Duration
	stopped   time.Duration // for how long the prober had been stopped by then, in all
	written   time.Duration // when the request had been handed to the kernel; 0 before
	held      time.Duration // for how long the prober was stopped between sent and written
	reprieved time.Duration // until when the reply is awaited though its time is over; 0 if it is not
	arrived   time.Duration // when what is here of the reply came; 0 if that is not known
	delayed   bool          // it was read only when the thread woke, and when it came is not known
	outcome   timeline.Outcome
	asker     *requester // while its reply is read
}

// extend gives the reply some more time, if its time is over because of a stop. See [requester.lastChance].
func (a *attempt) extend() (time.Time, bool) {
	until, ok := a.asker.lastChance(a, a.asker.clock.Now())
	return a.asker.clock.Wall(until), ok
}

// over is when a, whose reply was read whole at now, was over.
func (a *attempt) over(now time.Duration) time.Duration {
	if a.arrived > 0 {
		return min(a.arrived, now)
	}
	return now
}

// attempt is one of j that is sent at sent.
func (q *requester) attempt(j job, sent time.Duration) attempt {
	return attempt{job: j, sent: sent, stopped: q.stalls.stopped(sent)}
}

// deadline is when the attempt has failed for want of an answer.
func (q *requester) deadline(a *attempt) time.Duration { return a.sent + q.timeout }

// lastChance is until when the reply to a is awaited, whose time is over at now. ok is false if it is not: only where
// the prober was stopped as the time ended does it get some more. A reply that comes in it is no success: see
// [course.answer].
func (q *requester) lastChance(a *attempt, now time.Duration) (until time.Duration, ok bool) {
	return q.lastChanceAfter(a, q.deadline(a), now)
}

// lastChanceAfter is as lastChance, where the reply was awaited until over.
func (q *requester) lastChanceAfter(a *attempt, over, now time.Duration) (until time.Duration, ok bool) {
	course := q.course(a, now)
	course.deadline = over
	if a.reprieved == 0 && course.stoppedAtDeadline() {
		a.reprieved = now + reprieve
	}
	return a.reprieved, now < a.reprieved
}

// awaitReply waits for the first byte of the reply to a.
func (q *requester) awaitReply(a *attempt, c *link) error {
	for {
		_, err := c.br.Peek(1)
		if err == nil || !isTimeout(err) {
			return err
		}
		until, ok := q.lastChance(a, q.clock.Now())
		if !ok || c.SetReadDeadline(q.clock.Wall(until)) != nil {
			return err
		}
	}
}

// course is what happened to a until now.
func (q *requester) course(a *attempt, now time.Duration) course {
	return course{
		sent: a.sent, written: a.written, answered: a.written + a.outcome.FirstByte.Duration(), deadline: q.deadline(a), now: now,
		held: a.held, stopped: q.stalls.stopped(now) - a.stopped, latest: q.stalls.latest(now),
	}
}

// open dials and writes the first request on the new connection. After a failure the attempt is over,
// and no connection is returned.
func (q *requester) open(j job) (attempt, *link) {
	a, c := q.connect(j)
	if c == nil {
		return a, nil
	}
	if err := q.write(&a, c); err != nil {
		q.failed(&a, err, sending, c)
		c.abort()
		return a, nil
	}
	return a, c
}

// connect dials for a request, which is over if no connection is returned.
func (q *requester) connect(j job) (attempt, *link) {
	a := q.attempt(j, q.clock.Now())
	if tooLate(a.due, a.sent, q.interval()) {
		q.finish(a.job, a.sent, a.sent, timeline.Outcome{Class: timeline.NotSent})
		return a, nil
	}
	c, d, err := q.dial(q.deadline(&a))
	a.outcome.Phases, a.outcome.Peer = d.took, d.peer
	if err != nil {
		if status, ok := errors.AsType[unexpectedStatus](err); ok {
			a.outcome.Code = uint16(status)
		}
		q.failed(&a, err, d.phase, nil)
		return a, nil
	}
	return a, c
}

// write writes the request, if there is one to write, and sets the time by which its reply must be here.
func (q *requester) write(a *attempt, c *link) error {
	if err := c.SetDeadline(q.clock.Wall(q.deadline(a))); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	message := q.message
	if c.dialog != nil {
		message = c.dialog.request()
	}
	var err error
	if len(message) > 0 {
		_, err = c.Write(message)
	}
	a.written = q.clock.Now()
	a.held = q.stalls.stopped(a.written) - a.stopped
	return err
}

// exchange reads the reply to a request that was written, if one is awaited, and ends the request. It reports whether
// the connection can carry another.
func (q *requester) exchange(a *attempt, c *link, r *reply) (again bool) {
	if !q.awaits() {
		q.answered(a, r)
		return false
	}
	if err := q.awaitReply(a, c); err != nil {
		q.failed(a, err, awaiting, c)
		return false
	}
	again, _ = q.receive(a, c, r)
	return again
}

// receive reads a reply whose first byte is here. It reports whether the connection can carry another request, and
// the error with which reading ended.
func (q *requester) receive(a *attempt, c *link, r *reply) (again bool, err error) {
	if a.outcome.FirstByte == 0 {
		a.outcome.FirstByte = timeline.MicrosOf(q.clock.Now() - a.written)
	}
	err = q.readReplyTo(a, c, r)
	return q.received(a, c, r, err), err
}

// readReplyTo reads the reply to a, which gets some more time after a stop that its time was over in.
func (q *requester) readReplyTo(a *attempt, c *link, r *reply) error {
	a.asker, c.patience = q, a
	defer func() { c.patience = nil }()
	return q.readReply(c, r)
}

// received ends an attempt whose reply was read until err, nil if it was read whole. It reports whether the
// connection can carry another request.
func (q *requester) received(a *attempt, c *link, r *reply, err error) (again bool) {
	if r.timed {
		a.outcome.FirstByte = timeline.MicrosOf(max(0, r.began-a.written))
	}
	if r.inBody {
		a.outcome.Code = uint16(r.status)
	}
	a.outcome.Backend = q.backends.id(r.backend)
	if q.asksFor != "" {
		q.names.note(q.name, q.asksFor, a.sent, q.clock.Now(), r.backend, c.dialog.(nameDialog).found())
	}
	if err != nil {
		q.failed(a, err, replyPhase(r), c)
		return false
	}
	q.answered(a, r)
	return !r.last && (c.dialog != nil || c.br.Buffered() == 0)
}

func (q *requester) readReply(c *link, r *reply) error {
	if c.dialog != nil {
		return c.dialog.read(c.br, r)
	}
	return q.read(c.br, r)
}

func replyPhase(r *reply) phase {
	if r.inBody {
		return receiving
	}
	return awaiting
}

// answered ends an attempt whose reply was read whole.
func (q *requester) answered(a *attempt, r *reply) {
	done := a.over(q.clock.Now())
	var err error
	if a.outcome.Class, err = q.judge(r); a.outcome.Class == timeline.OK {
		a.outcome.Class, a.outcome.Delayed = q.course(a, done).answer()
	}
	a.outcome.Delayed = a.outcome.Delayed || a.delayed
	if a.outcome.Class == timeline.Local {
		err = errStopped
	}
	q.errors.record(q.name, q.finish(a.job, a.sent, done, a.outcome), err)
}

// failed ends an attempt that met an error in phase ph. c is its connection, if it has one.
func (q *requester) failed(a *attempt, err error, ph phase, c *link) {
	done := q.clock.Now()
	a.outcome.Class, err = q.classOf(a, done, err, ph, c)
	if q.asksFor != "" && ph <= awaiting {
		q.names.note(q.name, q.asksFor, a.sent, done, nil, nil)
	}
	q.errors.record(q.name, q.finish(a.job, a.sent, done, a.outcome), err)
}

// classOf is the class of an attempt that met an error in phase ph, and the error to explain it by. c is its
// connection, if it has one.
func (q *requester) classOf(a *attempt, done time.Duration, err error, ph phase, c *link) (timeline.Class, error) {
	class := classify(err, ph)
	course := q.course(a, done)
	course.unread = class.Timeout() && c != nil && c.waiting()
	if course.blamesUs(class, err, ph) {
		return timeline.Local, errStopped
	}
	return class, err
}

// refuse ends a request that was not sent.
func (q *requester) refuse(j job, class timeline.Class) {
	now := q.clock.Now()
	q.finish(j, now, now, timeline.Outcome{Class: class})
}

// refusal is the class of a request that the cap on open requests refused. If as many requests wait for the target, the
// target does not answer; otherwise we had no time to send them.
func refusal(waiting, most int64) timeline.Class {
	if waiting >= most {
		return timeline.NoSlot
	}
	return timeline.NotSent
}

// finish ends a request, and returns it.
func (q *requester) finish(j job, sent, done time.Duration, outcome timeline.Outcome) timeline.Request {
	r := timeline.Request{
		Target: q.id, Seq: j.seq, Due: j.due, Sent: floorMicros(sent), Done: ceilMicros(done), Outcome: outcome,
	}
	q.inflight.finished(r)
	return r
}
