package engine

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"lapse/loadgen/internal/polled"
	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A pool sends requests on persistent connections, as a client with a connection pool does. It
// serves reused and control targets.
//
// It keeps a fixed number of slots with a connection each and uses them in turn, so that each
// connection, and with it each backend, gets equally many requests. When all of them wait for replies it
// opens spare ones, up to the cap on open requests: a stalled service gets as many requests as were due.
//
// The pacing thread itself writes the request on an idle connection. That is one system call, which cannot block
// because the connection's send buffer is empty. So a request leaves on time even where the scheduler is slow to run
// goroutines. It also reads the reply, where it can do so without waiting: see [Polling]. Of the other connections,
// and for the first request of each, a goroutine of the connection's own waits in the read that the reply ends.
//
// A request is written once. If its connection breaks before the reply is whole, it has failed. Only a
// connection that is dead before anything was written is replaced, and then the new connection's
// outcome is the request's. A UDP socket that matches replies to requests does not break, and is kept.
type pool struct {
	*Requester
	wg       sync.WaitGroup
	starting atomic.Int64 // requests that wait for their goroutine to begin connecting
	unpolled atomic.Bool  // no connection is adopted by the pacing thread any more

	deadlines deadlines // of the requests on connections that are polled; belongs to the pacing thread, as do
	reprieves deadlines // of requests that were given some more time

	mu      sync.Mutex
	idle    ring        // kept slots, the one unused for longest first
	spare   []*connSlot // connected ones beyond those kept, the one unused for longest first
	inUse   int         // slots with an open request
	closing bool
}

// spareIdle is how long a spare connection is kept unused.
const spareIdle = 5 * time.Second

// A slot is a place for one connection.
type connSlot struct {
	kept  bool
	live  atomic.Pointer[poolConn] // nil while there is none
	since time.Duration
}

func newPool(q *Requester) *pool {
	if q.MaxInUse > 0 {
		q.Keep = min(q.Keep, q.MaxInUse)
	}
	return &pool{Requester: q, idle: ring{slots: make([]*connSlot, q.Keep)}}
}

// Prepare connects all kept slots. It waits until they are connected or have failed, but not for long: requests that
// are due meanwhile open connections of their own, so a service that does not accept connections is measured too.
func (p *pool) Prepare() {
	tryEach(&p.wg, p.Keep, timeline.MaxLateness(p.interval()), func(_ int, tried func()) {
		defer tried()
		p.connectAhead(&connSlot{kept: true})
	})
}

// connectAhead connects s for its first request, which tries again if this fails.
func (p *pool) connectAhead(s *connSlot) {
	defer p.ready(s)
	c, _, err := p.dial(p.Clock.Now() + p.Timeout)
	if err != nil {
		p.Log.Debug("cannot connect ahead of need", "err", err)
		return
	}
	pc := &poolConn{pool: p, slot: s, conn: c}
	s.live.Store(pc)
	_ = c.SetDeadline(time.Time{}) // an error shows at the first use of c
	if pc.adopt() {
		pc.watch()
		return
	}
	p.wg.Go(pc.serve)
}

// ready puts a new slot where take finds it, unless the measuring has ended meanwhile.
func (p *pool) ready(s *connSlot) {
	p.mu.Lock()
	closing := p.closing
	if !closing {
		p.idle.push(s)
	}
	p.mu.Unlock()
	if pc := s.live.Load(); closing && pc != nil {
		pc.retire()
	}
}

func (p *pool) Send(j Job) {
	if p.Polling != nil && p.Polling.Rested() && p.exhausted() {
		p.Polling.Read() // for some replies may be here
	}
	s, class := p.take()
	if s == nil {
		p.Refuse(j, class)
		return
	}
	if pc := s.live.Load(); pc != nil && len(p.Message) <= protocol.LongestInlineSend && pc.send(j) {
		return
	}
	p.starting.Add(1)
	p.wg.Go(func() {
		p.starting.Add(-1)
		p.sendAnew(s, j)
	})
}

// sendAnew sends on whatever connection s has, or on a new one.
func (p *pool) sendAnew(s *connSlot, j Job) {
	if pc := s.live.Load(); pc != nil && pc.send(j) {
		return
	}
	a, c := p.open(j)
	if c == nil {
		p.put(s)
		return
	}
	pc := &poolConn{pool: p, slot: s, conn: c, state: busy, attempt: a}
	s.live.Store(pc)
	pc.serve()
}

// exhausted reports whether a request now would need a new connection, or be refused.
func (p *pool) exhausted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse >= p.MaxOpen() || p.idle.n == 0 && len(p.spare) == 0
}

// take returns the slot to send on next, or why there is none.
func (p *pool) take() (*connSlot, timeline.Class) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if most := p.MaxOpen(); p.inUse >= most {
		return nil, refusal(int64(p.inUse)-p.starting.Load()-p.Ports.Choosing.Load(), int64(most))
	}
	p.inUse++
	if s := p.idle.pop(); s != nil {
		return s, 0
	}
	if last := len(p.spare) - 1; last >= 0 {
		s := p.spare[last]
		p.spare = p.spare[:last]
		return s, 0
	}
	return &connSlot{}, 0
}

// put takes a slot back whose request is over.
func (p *pool) put(s *connSlot) {
	unused := p.shelve(s)
	if unused != nil {
		unused.retire()
	}
}

// shelve puts s where take finds it, and returns a connection that has become too many.
func (p *pool) shelve(s *connSlot) (unused *poolConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse--
	switch {
	case p.closing:
		return s.live.Load()
	case s.kept:
		p.idle.push(s)
	case s.live.Load() != nil:
		s.since = p.Clock.Now()
		p.spare = append(p.spare, s)
	}
	if len(p.spare) > 0 && p.Clock.Now()-p.spare[0].since > spareIdle {
		unused = p.spare[0].live.Load()
		p.spare = p.spare[1:]
	}
	return unused
}

// forget notes that the idle connection of s is dead.
func (p *pool) forget(s *connSlot, dead *poolConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.live.CompareAndSwap(dead, nil) {
		return
	}
	for i := range p.spare {
		if p.spare[i] == s {
			p.spare = append(p.spare[:i], p.spare[i+1:]...)
			return
		}
	}
}

func (p *pool) Close() {
	for _, s := range p.shut() {
		s.retire()
	}
	p.wg.Wait()
	if p.Polling != nil {
		p.Polling.Remove(p)
	}
}

// shut lets no connection become idle any more, and returns those that are.
func (p *pool) shut() (idle []*poolConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	for s := p.idle.pop(); s != nil; s = p.idle.pop() {
		p.spare = append(p.spare, s)
	}
	for _, s := range p.spare {
		if pc := s.live.Load(); pc != nil {
			idle = append(idle, pc)
		}
	}
	p.spare = nil
	return idle
}

// A poolConn is a persistent connection and what happens on it.
type poolConn struct {
	pool *pool
	slot *connSlot
	conn *protocol.Conn

	mu      sync.Mutex
	state   poolConnState
	attempt attempt // while busy
	used    bool    // has carried a request
	partial []byte  // what has come of the reply, if it is polled and not whole
}

type poolConnState uint8

const (
	parked  poolConnState = iota // no request is open
	heeding                      // nor is one, and a message is read that came without
	busy                         // the reply to attempt is awaited
	over                         // closed, and out of its slot
)

// send writes a request, unless the connection turns out to be dead; then it reports false, and nothing
// was written. Whoever took the connection's slot calls it.
func (s *poolConn) send(j Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != parked && s.state != heeding {
		return false
	}
	sent := s.pool.Clock.Now() // before the look, so that what the look misses came after Sent
	if s.state == heeding || s.conn.Dead() {
		s.leave()
		return false
	}
	a := &s.attempt
	*a = s.pool.attempt(j, sent)
	a.outcome.Reused, a.outcome.Peer = s.used, s.pool.Peers.id(s.conn.Peer)
	s.used = true
	if err := s.pool.write(a, s.conn); err != nil {
		s.pool.failed(a, err, wire.Sending, s.conn)
		if !s.conn.OutlivesFailures() {
			s.leave()
		}
		s.pool.put(s.slot)
		return true
	}
	s.state = busy
	if isPolled(s.conn) {
		s.pool.expect(s)
	}
	return true
}

// leave parts the connection from its slot and wakes serve, which ends. The caller holds mu and the slot.
func (s *poolConn) leave() {
	s.state = over
	s.slot.live.Store(nil)
	s.conn.Reset()
}

// retire closes a connection that was parked and has no slot any more.
func (s *poolConn) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == parked {
		s.conn.TakeLeave(s.pool.Clock)
	}
	s.state = over
	_ = s.conn.Below.Close()
}

// serve reads replies until the connection ends. While nothing was asked it waits for the peer
// to close.
func (s *poolConn) serve() {
	defer s.conn.Release()
	var r protocol.Reply
	for {
		_, err := s.conn.Br.Peek(1)
		switch s.woke(err) {
		case over:
			return
		case heeding:
			if !s.heed() {
				return
			}
		case busy:
			if !s.reply(err, &r) {
				return
			}
		}
	}
}

// woke finds out what the end of a read means. It returns busy if it concerns the open request, heeding if a message
// came without one, over if the connection has ended, and parked if nothing happened.
func (s *poolConn) woke(err error) poolConnState {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == busy && wire.IsTimeout(err) && s.pool.Clock.Now() < s.pool.deadline(&s.attempt):
		return parked // the deadline of the request before, which a new one has replaced meanwhile
	case s.state == busy && wire.IsTimeout(err) && s.reprieved():
		return parked
	case s.state == parked && wire.IsTimeout(err):
		_ = s.conn.SetDeadline(time.Time{})
		return parked
	case s.state == parked && err == nil && s.conn.Dialog != nil:
		_ = s.conn.SetDeadline(time.Time{}) // the deadline of the request before
		s.state = heeding
	case s.state == parked:
		s.end()
	}
	return s.state
}

// reprieved reports whether the open request, whose time is over, is given some more, and sets it. The caller holds mu.
func (s *poolConn) reprieved() bool {
	until, ok := s.pool.lastChance(&s.attempt, s.pool.Clock.Now())
	return ok && s.conn.SetReadDeadline(s.pool.Clock.Wall(until)) == nil
}

// heed reads a message that came while no request was open, and reports whether the connection goes on. A request
// that becomes due meanwhile does not wait: it takes another connection, and this one is left.
func (s *poolConn) heed() bool {
	err := s.conn.Dialog.Heed(s.conn.Br)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == over:
	case err != nil:
		s.end()
	default:
		s.state = parked
	}
	return s.state == parked
}

// end closes the connection, which the peer has ended while no request was open. The caller holds mu.
func (s *poolConn) end() {
	s.state = over
	_ = s.conn.Below.Close()
	s.pool.forget(s.slot, s)
}

// reply reads the reply whose first byte is here, or takes err for it, and frees the slot. It reports whether
// the connection goes on.
func (s *poolConn) reply(err error, r *protocol.Reply) bool {
	again := false
	if err != nil {
		s.pool.failed(&s.attempt, err, wire.Awaiting, s.conn)
	} else {
		again, err = s.pool.receive(&s.attempt, s.conn, r)
	}
	return s.goOn(again, err)
}

// goOn frees the slot after a request, which ended with err or with a reply. It reports whether the caller, if it
// serves the connection, goes on doing so.
func (s *poolConn) goOn(again bool, err error) bool {
	if again || s.giveUp(err) || s.conn.OutlivesFailures() {
		return s.park()
	}
	s.part()
	return false
}

// giveUp gives up a request whose time is over, where the protocol keeps the connection nevertheless, and reports
// whether it does.
func (s *poolConn) giveUp(err error) bool {
	giving, ok := s.conn.Dialog.(protocol.Canceller)
	if !ok || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	message := giving.Cancel()
	if message == nil || s.conn.SetDeadline(time.Time{}) != nil {
		return false
	}
	_, err = s.conn.Write(message) // so little that it never waits: see cancel
	return err == nil
}

// park makes the connection idle. It reports whether a goroutine is to serve it.
func (s *poolConn) park() bool {
	adopted := s.adopt()
	s.mu.Lock()
	s.state = parked
	s.used = true
	s.mu.Unlock()
	if adopted {
		s.watch()
	}
	s.pool.put(s.slot)
	return !adopted
}

// part ends the connection after its request.
func (s *poolConn) part() {
	s.mu.Lock()
	s.leave()
	s.mu.Unlock()
	s.pool.put(s.slot)
}

// isPolled reports whether the pacing thread reads from c.
func isPolled(c *protocol.Conn) bool {
	_, ok := c.Below.(*polled.Socket)
	return ok
}

// polls reports whether the pacing thread shall read the replies of p.
func (p *pool) polls() bool {
	return p.Polling.Works() && p.TLS == nil && p.Stateful == nil && p.Network == "tcp" &&
		len(p.Message) <= protocol.LongestInlineSend && !p.unpolled.Load()
}

// adopt takes the connection of s out of Go's poller, where the pacing thread shall read its replies, and reports
// whether it did. Then there must be no goroutine that serves s, and watch is to be called once s is parked. Nobody
// but the caller may know s yet.
func (s *poolConn) adopt() bool {
	p := s.pool
	tcp, ok := s.conn.Below.(*net.TCPConn)
	if !ok || !p.polls() || s.conn.Br.Buffered() > 0 {
		return false
	}
	o, err := p.Polling.Adopt(tcp, p.wg.Done)
	if err != nil {
		p.Log.Debug("cannot poll a connection", "err", err)
		return false
	}
	p.wg.Add(1)
	p.Polling.Add(p)
	s.conn = s.conn.CarriedBy(o)
	return true
}

// watch begins the polling of s, which was adopted, is parked and whose slot is the caller's. If that cannot be, its
// connection ends.
func (s *poolConn) watch() {
	o := s.conn.Below.(*polled.Socket)
	err := s.pool.Polling.Watch(o, s)
	if err == nil {
		return
	}
	s.pool.Log.Debug("cannot poll a connection", "err", err)
	s.pool.unpolled.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
}

// A deadline is when a request has failed for want of a reply.
type deadline struct {
	conn *poolConn
	seq  uint64
	at   time.Duration
}

// deadlines are a queue, the first one to end first.
type deadlines struct {
	list []deadline
	head int
}

func (q *deadlines) push(d deadline) { q.list = append(q.list, d) }

// pop takes the first deadline of a request whose reply is still awaited, if it is over at now. Otherwise it returns
// when it is.
func (q *deadlines) pop(now time.Duration) (d deadline, over bool, next time.Duration) {
	for q.head < len(q.list) {
		d = q.list[q.head]
		awaited := d.conn.awaits(d.seq)
		if awaited && d.at > now {
			return d, false, d.at
		}
		q.head++
		if q.head >= len(q.list)/2 {
			q.list = append(q.list[:0], q.list[q.head:]...)
			q.head = 0
		}
		if awaited {
			return d, true, 0
		}
	}
	return d, false, never
}

// expect notes the deadline of the request that was sent on s. As all requests of a target have the same time, they
// end in the order in which they were sent.
func (p *pool) expect(s *poolConn) {
	p.deadlines.push(deadline{s, s.attempt.Seq, p.deadline(&s.attempt)})
}

// awaits reports whether the pacing thread awaits the reply to request seq on s: it has not come, and no goroutine
// reads it.
func (s *poolConn) awaits(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == busy && s.attempt.Seq == seq && isPolled(s.conn)
}

// A ring is a queue of at most as many slots as it was made for.
type ring struct {
	slots []*connSlot
	head  int
	n     int
}

func (r *ring) push(s *connSlot) {
	r.slots[(r.head+r.n)%len(r.slots)] = s
	r.n++
}

func (r *ring) pop() *connSlot {
	if r.n == 0 {
		return nil
	}
	s := r.slots[r.head]
	r.head = (r.head + 1) % len(r.slots)
	r.n--
	return s
}
