package engine

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/stall"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A held engine keeps connections open while the target is measured, and replaces one only when it has ended, as a
// client with long-lived connections does. It serves held targets.
//
// The target's requests are heartbeats: those that are due go to the connections in turn, so that each connection
// gets one per interval and the instants of all of them are spread evenly over it. [timeline.HeldChange] says what
// happens to the connections:
//
//	open ── stands ── heartbeat … heartbeat ── cut ── open at once ── failed ── open after 10, 20, 40 ms … ── stands
//
// A connection is established when its first heartbeat is answered. That heartbeat is sent right after connecting,
// and is part of the attempt. It is cut when the peer closes or resets it, announces its end, or leaves a heartbeat
// unanswered until the next one is due. A heartbeat without an answer within the timeout has failed before that, and
// the connection stands: an answer may still come.
//
// As in a pool, the pacing thread writes the heartbeats, and each connection's own goroutine waits for what arrives.
// While nothing has, it holds no read buffer: it waits for the socket to become readable.
type held struct {
	*Requester
	conns   []heldConn
	opening chan struct{} // holds an item for each attempt under way
	over    chan struct{} // closed when no connection is to be held any more
	wg      sync.WaitGroup
}

const (
	// mostOpening is how many connections are being opened at once: more would wait for our own CPU, or overflow the
	// backlog of a server (4096 by default on Linux), and their SYNs are sent again after a second.
	mostOpening = 256

	// longestOpening is how long the first heartbeat waits for the connections.
	longestOpening = 5 * time.Second

	firstBackoff = 10 * time.Millisecond
	// longestBackoff is how long a connection waits at most for its next attempt; where there are more than 1000, as
	// many milliseconds as there are, so that they make at most 1000 attempts per second together.
	longestBackoff = time.Second
)

func newHeld(q *Requester) *held {
	e := &held{
		Requester: q,
		conns:     make([]heldConn, q.Keep),
		opening:   make(chan struct{}, mostOpening),
		over:      make(chan struct{}),
	}
	for i := range e.conns {
		e.conns[i].held, e.conns[i].index = e, uint32(i)
	}
	return e
}

// beat returns the time between two heartbeats on one connection.
func (e *held) beat() time.Duration { return time.Duration(len(e.conns)) * e.interval() }

// backoff returns how long to wait before another attempt when the last n have failed, before it is spread: 0, 10 ms,
// 20 ms, 40 ms, … up to a bound.
func backoff(n, conns int) time.Duration {
	longest := max(longestBackoff, time.Duration(conns)*time.Millisecond)
	switch {
	case n == 0:
		return 0
	case n > 20:
		return longest
	}
	return min(firstBackoff<<(n-1), longest)
}

// spread returns a time between half of d and all of it: what was cut together does not come back in step.
func spread(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// Prepare opens the connections. It waits until each was tried once, but no longer than [longestOpening]: heartbeats
// on those that have not been opened by then are not sent.
func (e *held) Prepare() {
	most := max(longestOpening, 2*e.Timeout)
	tryEach(&e.wg, len(e.conns), most, func(i int, tried func()) { e.conns[i].hold(tried) })
}

// Send sends a heartbeat on the connection whose turn it is.
func (e *held) Send(j Job) {
	h := &e.conns[j.Seq%uint64(len(e.conns))]
	if class := h.send(j); class != timeline.OK {
		e.Refuse(j, class)
	}
}

func (e *held) Close() {
	close(e.over)
	for i := range e.conns {
		e.conns[i].dismiss()
	}
	e.wg.Wait()
}

// wait waits for d, and reports whether connections are still to be held then.
func (e *held) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.over:
		return false
	default:
	}
	select {
	case <-e.over:
		return false
	case <-timer.C:
		return true
	}
}

// A heldConn is one of the connections: the present one, and those before it.
type heldConn struct {
	held  *held
	index uint32

	mu       sync.Mutex
	state    heldState
	tried    bool // it was opened once, or an attempt to that has failed
	leaving  bool // it is to be closed as soon as no heartbeat is open
	conn     *protocol.Conn
	attempt  attempt // while awaitingAnswer or overdue
	put      *Job    // a heartbeat that waits until a message is read that came without one
	broken   error   // how it ended
	answered answered
}

// answered is the last heartbeat that was answered.
type answered struct {
	sent, at time.Duration
	stopped  time.Duration // for how long the prober had been stopped by then, in all
	backend  uint16
}

type heldState uint8

const (
	absent         heldState = iota // there is no connection
	idle                            // no heartbeat is open
	unsolicited                     // nor is one, and a message is read that came unsolicited
	awaitingAnswer                  // the answer to attempt is awaited
	overdue                         // it did not come in time, and is still awaited
	ended                           // it has ended, or a heartbeat could not be written
)

// hold opens the connection, and again each time it has been cut, until the measuring ends. tried is called
// after the first attempt.
func (h *heldConn) hold(tried func()) {
	for failures := 0; h.held.wait(spread(backoff(failures, len(h.held.conns)))); {
		opened := h.open()
		if tried != nil {
			tried()
			tried = nil
		}
		if !opened {
			failures++
			continue
		}
		failures = 0
		if !h.serve() {
			return
		}
	}
	if tried != nil {
		tried()
	}
}

// open makes one attempt to open the connection, and reports whether it stands.
func (h *heldConn) open() bool {
	e := h.held
	select {
	case e.opening <- struct{}{}:
		defer func() { <-e.opening }()
	case <-e.over:
		return false
	}
	begun := e.Clock.Now()
	a := e.attempt(Job{Due: begun}, begun)
	var r protocol.Reply
	c, class, err := e.greet(&a, &r)
	done := e.Clock.Now()
	change := timeline.HeldChange{
		Class:   class,
		From:    FloorMicros(begun),
		At:      CeilMicros(done),
		Peer:    a.outcome.Peer,
		Backend: e.Backends.id(r.Backend),
	}
	if c == nil {
		change.Kind = timeline.HeldFailed
		h.note(change)
		e.explain(change, uint16(r.Status), err)
		h.mu.Lock()
		h.tried = true
		h.mu.Unlock()
		return false
	}
	h.note(change)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried, h.conn = true, c
	h.answered = answered{sent: begun, at: done, stopped: e.Stalls.Stopped(done), backend: change.Backend}
	h.rest()
	return true
}

// greet connects, and makes the first heartbeat. Without a connection, it says of what class the attempt is and why
// it failed.
func (e *held) greet(a *attempt, r *protocol.Reply) (*protocol.Conn, timeline.Class, error) {
	c, d, err := e.dial(e.deadline(a))
	a.outcome.Phases, a.outcome.Peer = d.took, d.peer
	if err != nil {
		class, err := e.classOf(a, e.Clock.Now(), err, d.phase, nil)
		return nil, class, err
	}
	class, err := e.firstBeat(a, c, r)
	if class != timeline.OK {
		c.Abort()
		return nil, class, err
	}
	return c, timeline.OK, nil
}

func (e *held) firstBeat(a *attempt, c *protocol.Conn, r *protocol.Reply) (timeline.Class, error) {
	ph, err := wire.Sending, e.write(a, c)
	if err == nil {
		ph = wire.Awaiting
		err = e.awaitReply(a, c)
	}
	if err == nil {
		a.outcome.FirstByte = timeline.MicrosOf(e.Clock.Now() - a.written)
		err = e.readReplyTo(a, c, r)
		ph = replyPhase(r)
	}
	done := e.Clock.Now()
	if err != nil {
		return e.classOf(a, done, err, ph, c)
	}
	class, err := e.Judge(r)
	if class == timeline.OK && r.Last {
		return timeline.EOF, errNotKept
	}
	if class == timeline.OK {
		if class, _ = e.course(a, done).Answer(); class == timeline.Local {
			err = stall.ErrStopped
		}
	}
	return class, err
}

// errNotKept is the error of a connection that is over after one reply, and of one whose server says so later.
const errNotKept = wire.AnnouncedEnd(
	"the server has announced that it closes the connection (Connection: close, or GOAWAY)")

// note hands a change on.
func (h *heldConn) note(c timeline.HeldChange) {
	c.Target, c.Conn = h.held.ID, h.index
	h.held.Changes.note(c)
}

// explain records why a connection failed or was cut, where the class does not say it all.
func (e *held) explain(c timeline.HeldChange, status uint16, err error) {
	outcome := timeline.Outcome{Class: c.Class, Code: status}
	e.Errors.record(e.Name, timeline.Request{Sent: c.From, Done: c.At, Outcome: outcome}, err)
}

// rest makes the connection wait for its next heartbeat. The caller holds mu.
func (h *heldConn) rest() {
	_ = h.conn.SetDeadline(time.Time{}) // an error shows at its next use
	h.conn.Shelve()
	h.state = idle
	if h.leaving {
		h.wake()
	}
}

// wake ends the read in which the connection's goroutine waits.
func (h *heldConn) wake() { _ = h.conn.SetReadDeadline(time.Unix(1, 0)) }

// send sends a heartbeat, or says of what class it is if it is not sent.
func (h *heldConn) send(j Job) timeline.Class {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.state == idle && len(h.held.Message) > protocol.LongestInlineSend:
		h.put = &j
		h.wake()
	case h.state == idle:
		h.write(j)
	case h.state == unsolicited && h.put == nil:
		h.put = &j
	case h.state == unsolicited: // for a whole interval, a message did not end
		h.wake()
		return timeline.NoSlot
	case h.state == absent && !h.tried:
		return timeline.NotSent // it has not been our turn
	default:
		return timeline.NoSlot
	}
	return timeline.OK
}

// write writes a heartbeat. The caller holds mu.
func (h *heldConn) write(j Job) {
	e := h.held
	h.attempt = e.attempt(j, e.Clock.Now())
	h.attempt.outcome.Reused, h.attempt.outcome.Peer = true, e.Peers.id(h.conn.Peer)
	h.state = awaitingAnswer
	if err := e.Requester.write(&h.attempt, h.conn); err != nil {
		h.state, h.broken = ended, err
		e.failed(&h.attempt, err, wire.Sending, nil)
		h.wake()
	}
}

// dismiss closes the connection, or has it closed when its heartbeat is over.
func (h *heldConn) dismiss() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaving = true
	if h.state == idle || h.state == unsolicited || h.state == overdue {
		h.wake()
	}
}

// What is to be done about the end of a read.
type heldStep uint8

const (
	waitOn          heldStep = iota // nothing happened
	readAnswer                      // the answer to a heartbeat is here
	readUnsolicited                 // a message is here that came without one
	giveUp                          // the connection has ended
	goAway                          // it is to be closed
)

// serve waits for what comes, until the connection has ended. It reports whether another is to be opened.
func (h *heldConn) serve() (again bool) {
	var r protocol.Reply
	for {
		step, err := h.woke(h.conn.Await())
		switch step {
		case readAnswer:
			step, err = h.readAnswer(&r)
		case readUnsolicited:
			step, err = h.readUnsolicited(&r)
		}
		switch step {
		case giveUp:
			h.cut(err)
			return true
		case goAway:
			h.leave()
			return false
		}
	}
}

// woke decides what the end of a read means.
func (h *heldConn) woke(err error) (heldStep, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.state == ended:
		return giveUp, h.broken
	case h.leaving && h.state != awaitingAnswer:
		return goAway, nil
	case err != nil && wire.IsTimeout(err):
		return h.expired(err)
	case err != nil:
		h.lost(err, wire.Awaiting)
		h.state, h.broken = ended, err // no heartbeat is sent on it any more
		return giveUp, err
	case h.state == idle:
		h.state = unsolicited
		return readUnsolicited, nil
	}
	return readAnswer, nil
}

// lost ends the heartbeat that is open, if one is, with the error of its connection. The caller holds mu.
func (h *heldConn) lost(err error, ph wire.Phase) {
	if h.state == awaitingAnswer {
		h.held.failed(&h.attempt, err, ph, h.conn)
		h.state = overdue
	}
}

// expired decides what the end of a wait means: the wait for the answer to a heartbeat, or for a late one. The caller
// holds mu.
func (h *heldConn) expired(err error) (heldStep, error) {
	e := h.held
	switch next := h.attempt.sent + e.beat(); {
	case h.state == idle:
		_ = h.conn.SetDeadline(time.Time{})
		if h.put != nil {
			h.write(*h.put)
			h.put = nil
		}
	// the deadline of the heartbeat before, which a new one has replaced meanwhile
	case h.state == awaitingAnswer && e.Clock.Now() < e.deadline(&h.attempt):
	case h.state == awaitingAnswer && h.extended(e.deadline(&h.attempt)):
	case h.state == awaitingAnswer:
		h.lost(err, wire.Awaiting)
		_ = h.conn.SetReadDeadline(e.Clock.Wall(next))
		if h.leaving {
			return goAway, nil
		}
	case h.conn.Waiting(): // it came while the prober was stopped
		_ = h.conn.SetReadDeadline(e.Clock.Wall(e.Clock.Now() + e.Timeout))
	case h.extended(next):
	default:
		return giveUp, err
	}
	return waitOn, nil
}

// extended reports whether the answer to the heartbeat, which was awaited until over, is awaited some more after a
// stop, and sees to it. The caller holds mu.
func (h *heldConn) extended(over time.Duration) bool {
	e := h.held
	until, ok := e.lastChanceAfter(&h.attempt, over, e.Clock.Now())
	return ok && h.conn.SetReadDeadline(e.Clock.Wall(until)) == nil
}

// readAnswer reads the answer to a heartbeat, which may be a late one.
func (h *heldConn) readAnswer(r *protocol.Reply) (heldStep, error) {
	e, c, a := h.held, h.conn, &h.attempt
	c.Unshelve()
	came := e.Clock.Now()
	err := e.readReplyTo(a, c, r)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.lost(err, replyPhase(r))
		return giveUp, err
	}
	if h.state == awaitingAnswer {
		a.outcome.FirstByte = timeline.MicrosOf(came - a.written)
		a.outcome.Backend = e.Backends.id(r.Backend)
		a.outcome.Code = uint16(r.Status)
		e.answered(a, r)
	}
	done := e.Clock.Now()
	h.answered = answered{sent: a.sent, at: done, stopped: e.Stalls.Stopped(done), backend: e.Backends.id(r.Backend)}
	switch {
	case r.Last:
		return giveUp, errNotKept
	case c.Dialog == nil && c.Br.Buffered() > 0:
		return giveUp, errUnasked
	}
	h.rest()
	return waitOn, nil
}

// errUnasked: what is read next could not be told from the answer to the next heartbeat.
var errUnasked = wire.Malformed("bytes that no heartbeat asked for")

// readUnsolicited reads a message that came while no heartbeat was open. Even a protocol with answers only may announce
// the end of a connection in this way: 408 Request Timeout with Connection: close.
func (h *heldConn) readUnsolicited(r *protocol.Reply) (heldStep, error) {
	c := h.conn
	c.Unshelve()
	var err error
	if c.Dialog != nil {
		err = c.Dialog.Heed(c.Br)
	} else if err = h.held.Read(c.Br, r); err == nil {
		if err = errUnasked; r.Last {
			err = errNotKept
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.put
	h.put = nil
	switch {
	case err == nil:
		h.rest()
		if j != nil {
			h.write(*j)
		}
		return waitOn, nil
	case j != nil:
		h.held.Refuse(*j, timeline.NoSlot)
	}
	if h.leaving && wire.IsTimeout(err) {
		return goAway, nil
	}
	return giveUp, err
}

// cut closes the connection that the peer, or its silence, has ended.
func (h *heldConn) cut(err error) {
	e := h.held
	now := e.Clock.Now()
	change := h.end(timeline.HeldCut, now)
	_, change.Warned = errors.AsType[wire.AnnouncedEnd](err)
	change.Class = wire.Classify(err, wire.Awaiting)
	change.Stopped = h.keptWaiting(now).byAStop(change.Class)
	h.note(change)
	e.explain(change, 0, err)
	h.drop(func(c *protocol.Conn) { c.Reset() })
}

// A heldWait is what a peer saw of us until a connection was cut.
type heldWait struct {
	beat    time.Duration // time between two heartbeats
	silence time.Duration // since the last one was
	late    time.Duration // how much later than due
	stopped time.Duration // how long the prober was stopped since the last answer
}

func (h *heldConn) keptWaiting(now time.Duration) heldWait {
	w := heldWait{
		beat:    h.held.beat(),
		silence: now - h.answered.sent,
		stopped: h.held.Stalls.Stopped(now) - h.answered.stopped,
	}
	if a := &h.attempt; a.sent > h.answered.sent {
		w.silence, w.late = now-a.sent, a.sent-a.Due
	}
	return w
}

// byAStop reports whether a stop of the prober may have led to the cut. A peer that cuts may have given us up only if
// our heartbeats came later than they do otherwise. A heartbeat without an answer is our own fault only if the prober
// was stopped for most of the time: what has arrived is read in any case.
func (w heldWait) byAStop(class timeline.Class) bool {
	switch {
	case w.stopped == 0:
		return false
	case class.Timeout():
		return w.stopped > w.silence/2
	}
	return w.late > stall.PeersPatience || w.silence > w.beat+stall.PeersPatience
}

// leave closes the connection because its measuring ends.
func (h *heldConn) leave() {
	h.conn.TakeLeave(h.held.Clock)
	change := h.end(timeline.HeldClosed, h.held.Clock.Now())
	h.mu.Lock()
	if h.state == overdue {
		change.Class = timeline.TimeoutResponse
	}
	h.mu.Unlock()
	h.note(change)
	h.drop(func(c *protocol.Conn) { _ = c.Below.Close() })
}

// end returns the change by which the connection ends, known at an instant.
func (h *heldConn) end(kind timeline.HeldKind, now time.Duration) timeline.HeldChange {
	last := h.answered
	return timeline.HeldChange{
		Kind:     kind,
		From:     FloorMicros(last.sent),
		Answered: CeilMicros(last.at),
		At:       CeilMicros(now),
		Peer:     h.held.Peers.id(h.conn.Peer),
		Backend:  last.backend,
	}
}

// drop closes the connection and releases its memory.
func (h *heldConn) drop(closing func(*protocol.Conn)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, j := h.conn, h.put
	h.state, h.conn, h.put, h.broken, h.attempt = absent, nil, nil, nil, attempt{}
	if j != nil {
		h.held.Refuse(*j, timeline.NoSlot)
	}
	closing(c)
	c.Release()
}
