package engine

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/stall"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A Requester makes the requests of one target and books how they end. Engines choose the connections for it.
type Requester struct {
	connector
	Inflight  *Inflight
	perSecond atomic.Uint64            // the rate, as math.Float64bits
	was       atomic.Pointer[pastRate] // nil: none that matters
}

// A pastRate is a higher rate, whose requests may be open until an instant.
type pastRate struct {
	rate  float64
	until time.Duration
}

// Rate returns how many requests are due per second.
func (q *Requester) Rate() float64 { return math.Float64frombits(q.perSecond.Load()) }

// SetRate changes it. Only one goroutine may, at a time.
func (q *Requester) SetRate(rate float64) {
	if highest := q.highestOpen(); rate < highest {
		q.was.Store(&pastRate{highest, q.Clock.Now() + q.Timeout + stall.Reprieve})
	}
	q.perSecond.Store(math.Float64bits(rate))
}

// highestOpen returns the highest rate of which requests may be open.
func (q *Requester) highestOpen() float64 {
	if was := q.was.Load(); was != nil && q.Clock.Now() < was.until {
		return max(was.rate, q.Rate())
	}
	return q.Rate()
}

// interval returns the time between two due instants.
func (q *Requester) interval() time.Duration {
	return time.Duration(float64(time.Second) / q.Rate())
}

// MaxOpen returns how many requests may be open at once. In an honest open loop a stalled service collects rate ×
// timeout of them, and some more after a stop of the prober (see reprieve); what exceeds this cap is a sign that the
// service lets us wait. After a lower rate, those of the one before are awaited first.
func (q *Requester) MaxOpen() int {
	if q.MaxInUse > 0 {
		return q.MaxInUse
	}
	return int(math.Ceil(q.highestOpen()*(q.Timeout+stall.Reprieve).Seconds())) + q.Keep
}

// A Job is one request that is due.
type Job struct {
	Seq uint64
	Due time.Duration
}

// An attempt is one request under way.
type attempt struct {
	Job
	sent      time.Duration
	stopped   time.Duration // for how long the prober had been stopped by then, in all
	written   time.Duration // when the request had been handed to the kernel; 0 before
	held      time.Duration // for how long the prober was stopped between sent and written
	reprieved time.Duration // until when the reply is awaited though its time is over; 0 if it is not
	arrived   time.Duration // when what is here of the reply came; 0 if that is not known
	delayed   bool          // it was read only when the thread woke, and when it came is not known
	outcome   timeline.Outcome
	asker     *Requester // while its reply is read
}

// Extend gives the reply some more time, if its time is over because of a stop. See [Requester.lastChance].
func (a *attempt) Extend() (time.Time, bool) {
	until, ok := a.asker.lastChance(a, a.asker.Clock.Now())
	return a.asker.Clock.Wall(until), ok
}

// over returns when the attempt was over, if its reply was read whole at now.
func (a *attempt) over(now time.Duration) time.Duration {
	if a.arrived > 0 {
		return min(a.arrived, now)
	}
	return now
}

// attempt returns a new attempt at j, sent at sent.
func (q *Requester) attempt(j Job, sent time.Duration) attempt {
	return attempt{Job: j, sent: sent, stopped: q.Stalls.Stopped(sent)}
}

// deadline returns when the attempt has failed for want of an answer.
func (q *Requester) deadline(a *attempt) time.Duration { return a.sent + q.Timeout }

// lastChance returns the extended deadline of an attempt whose time is over at now, and false if there is none: only
// where the prober was stopped as the time ended is a reply awaited for longer. A reply that comes then is no success:
// see [stall.Course.Answer].
func (q *Requester) lastChance(a *attempt, now time.Duration) (until time.Duration, ok bool) {
	return q.lastChanceAfter(a, q.deadline(a), now)
}

// lastChanceAfter is lastChance for a reply that was awaited until over.
func (q *Requester) lastChanceAfter(a *attempt, over, now time.Duration) (until time.Duration, ok bool) {
	course := q.course(a, now)
	course.Deadline = over
	if a.reprieved == 0 && course.StoppedAtDeadline() {
		a.reprieved = now + stall.Reprieve
	}
	return a.reprieved, now < a.reprieved
}

// awaitReply waits for the first byte of the reply to a.
func (q *Requester) awaitReply(a *attempt, c *protocol.Conn) error {
	for {
		_, err := c.Br.Peek(1)
		if err == nil || !wire.IsTimeout(err) {
			return err
		}
		until, ok := q.lastChance(a, q.Clock.Now())
		if !ok || c.SetReadDeadline(q.Clock.Wall(until)) != nil {
			return err
		}
	}
}

// course returns what happened to a until now.
func (q *Requester) course(a *attempt, now time.Duration) stall.Course {
	return stall.Course{
		Sent:     a.sent,
		Written:  a.written,
		Answered: a.written + a.outcome.FirstByte.Duration(),
		Deadline: q.deadline(a),
		Now:      now,
		Held:     a.held,
		Stopped:  q.Stalls.Stopped(now) - a.stopped,
		Latest:   q.Stalls.Latest(now),
	}
}

// open dials and writes the first request on the new connection. After a failure the attempt is over,
// and no connection is returned.
func (q *Requester) open(j Job) (attempt, *protocol.Conn) {
	a, c := q.connect(j)
	if c == nil {
		return a, nil
	}
	if err := q.write(&a, c); err != nil {
		q.failed(&a, err, wire.Sending, c)
		c.Abort()
		return a, nil
	}
	return a, c
}

// connect dials for a request, which is over if no connection is returned.
func (q *Requester) connect(j Job) (attempt, *protocol.Conn) {
	a := q.attempt(j, q.Clock.Now())
	if TooLate(a.Due, a.sent, q.interval()) {
		q.finish(a.Job, a.sent, a.sent, timeline.Outcome{Class: timeline.NotSent})
		return a, nil
	}
	c, d, err := q.dial(q.deadline(&a))
	a.outcome.Phases, a.outcome.Peer = d.took, d.peer
	if err != nil {
		if status, ok := errors.AsType[wire.UnexpectedStatus](err); ok {
			a.outcome.Code = uint16(status)
		}
		q.failed(&a, err, d.phase, nil)
		return a, nil
	}
	return a, c
}

// write writes the request, if there is one to write, and sets the time by which its reply must be here.
func (q *Requester) write(a *attempt, c *protocol.Conn) error {
	if err := c.SetDeadline(q.Clock.Wall(q.deadline(a))); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	message := q.Message
	if c.Dialog != nil {
		message = c.Dialog.Request()
	}
	var err error
	if len(message) > 0 {
		_, err = c.Write(message)
	}
	a.written = q.Clock.Now()
	a.held = q.Stalls.Stopped(a.written) - a.stopped
	return err
}

// exchange reads the reply to a request that was written, if one is awaited, and ends the request. It reports whether
// the connection can carry another.
func (q *Requester) exchange(a *attempt, c *protocol.Conn, r *protocol.Reply) (again bool) {
	if !q.Awaits() {
		q.answered(a, r)
		return false
	}
	if err := q.awaitReply(a, c); err != nil {
		q.failed(a, err, wire.Awaiting, c)
		return false
	}
	again, _ = q.receive(a, c, r)
	return again
}

// receive reads a reply whose first byte is here. It reports whether the connection can carry another request, and
// the error with which reading ended.
func (q *Requester) receive(a *attempt, c *protocol.Conn, r *protocol.Reply) (again bool, err error) {
	if a.outcome.FirstByte == 0 {
		a.outcome.FirstByte = timeline.MicrosOf(q.Clock.Now() - a.written)
	}
	err = q.readReplyTo(a, c, r)
	return q.received(a, c, r, err), err
}

// readReplyTo reads the reply to a, which gets some more time after a stop that its time was over in.
func (q *Requester) readReplyTo(a *attempt, c *protocol.Conn, r *protocol.Reply) error {
	a.asker, c.Patience = q, a
	defer func() { c.Patience = nil }()
	return q.readReply(c, r)
}

// received ends an attempt whose reply was read until err, nil if it was read whole. It reports whether the
// connection can carry another request.
func (q *Requester) received(a *attempt, c *protocol.Conn, r *protocol.Reply, err error) (again bool) {
	if r.Timed {
		a.outcome.FirstByte = timeline.MicrosOf(max(0, r.Began-a.written))
	}
	if r.InBody {
		a.outcome.Code = uint16(r.Status)
	}
	a.outcome.Backend = q.Backends.id(r.Backend)
	if q.AsksFor != "" {
		q.Names.note(q.Name, q.AsksFor, a.sent, q.Clock.Now(), r.Backend, c.Dialog.(protocol.NameDialog).Found())
	}
	if err != nil {
		q.failed(a, err, replyPhase(r), c)
		return false
	}
	q.answered(a, r)
	return !r.Last && (c.Dialog != nil || c.Br.Buffered() == 0)
}

func (q *Requester) readReply(c *protocol.Conn, r *protocol.Reply) error {
	if c.Dialog != nil {
		return c.Dialog.Read(c.Br, r)
	}
	return q.Read(c.Br, r)
}

func replyPhase(r *protocol.Reply) wire.Phase {
	if r.InBody {
		return wire.Receiving
	}
	return wire.Awaiting
}

// answered ends an attempt whose reply was read whole.
func (q *Requester) answered(a *attempt, r *protocol.Reply) {
	done := a.over(q.Clock.Now())
	var err error
	if a.outcome.Class, err = q.Judge(r); a.outcome.Class == timeline.OK {
		a.outcome.Class, a.outcome.Delayed = q.course(a, done).Answer()
	}
	a.outcome.Delayed = a.outcome.Delayed || a.delayed
	if a.outcome.Class == timeline.Local {
		err = stall.ErrStopped
	}
	q.Errors.record(q.Name, q.finish(a.Job, a.sent, done, a.outcome), err)
}

// failed ends an attempt that met an error in phase ph. c is its connection, if it has one.
func (q *Requester) failed(a *attempt, err error, ph wire.Phase, c *protocol.Conn) {
	done := q.Clock.Now()
	a.outcome.Class, err = q.classOf(a, done, err, ph, c)
	if q.AsksFor != "" && ph <= wire.Awaiting {
		q.Names.note(q.Name, q.AsksFor, a.sent, done, nil, nil)
	}
	q.Errors.record(q.Name, q.finish(a.Job, a.sent, done, a.outcome), err)
}

// classOf returns the class of an attempt that met an error in phase ph, and the error to explain it by. c is its
// connection, if it has one.
func (q *Requester) classOf(
	a *attempt, done time.Duration, err error, ph wire.Phase, c *protocol.Conn,
) (timeline.Class, error) {
	class := wire.Classify(err, ph)
	course := q.course(a, done)
	course.Unread = class.Timeout() && c != nil && c.Waiting()
	if course.BlamesUs(class, err, ph) {
		return timeline.Local, stall.ErrStopped
	}
	return class, err
}

// Refuse ends a request that was not sent.
func (q *Requester) Refuse(j Job, class timeline.Class) {
	now := q.Clock.Now()
	q.finish(j, now, now, timeline.Outcome{Class: class})
}

// refusal returns the class of a request that the cap on open requests refused. If as many requests wait for the
// target, the target does not answer; otherwise we had no time to send them.
func refusal(waiting, most int64) timeline.Class {
	if waiting >= most {
		return timeline.NoSlot
	}
	return timeline.NotSent
}

// finish ends a request, and returns it.
func (q *Requester) finish(j Job, sent, done time.Duration, outcome timeline.Outcome) timeline.Request {
	r := timeline.Request{
		Target: q.ID, Seq: j.Seq, Due: j.Due, Sent: FloorMicros(sent), Done: CeilMicros(done), Outcome: outcome,
	}
	q.Inflight.finished(r)
	return r
}
