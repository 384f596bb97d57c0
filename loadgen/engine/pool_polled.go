package engine

import (
	"bufio"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"lapse/loadgen/polled"
	"lapse/loadgen/protocol"
	"lapse/loadgen/wire"
	"lapse/timeline"
)

// This file is about sessions whose replies the pacing thread itself reads: plain TCP, and a protocol without a state
// of its own. A reply is taken when it is here whole, up to the size of the read buffer. A target with longer ones goes
// back to goroutines.

// Polling is what the pools of a prober share whose replies the pacing thread reads. It belongs to that thread.
type Polling struct {
	*polled.Reader
	text  [wire.ReadBuffer]byte
	rest  received
	br    *bufio.Reader
	reply protocol.Reply
}

func NewPolling(clock timeline.Clock) *Polling {
	return &Polling{Reader: polled.NewReader(clock), br: bufio.NewReaderSize(nil, wire.ReadBuffer)}
}

// Works reports whether there is polling.
func (y *Polling) Works() bool { return y != nil && y.Reader.Works() }

// errNotYet is the error of reading further than what has arrived.
var errNotYet = errors.New("not arrived yet")

// received is a part of what a connection brings, and how it ends.
type received struct {
	text []byte
	end  error
}

func (r *received) Read(into []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, r.end
	}
	n := copy(into, r.text)
	r.text = r.text[n:]
	return n, nil
}

// isPolled reports whether the pacing thread reads from c.
func isPolled(c *protocol.Conn) bool {
	_, ok := c.Below.(*polled.Socket)
	return ok
}

// PolledIdle returns how many connections of e the pacing thread reads, of those that wait for a request.
func PolledIdle(e Engine) (n int) {
	p, ok := e.(*pool)
	if !ok {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.idle.n {
		s := p.idle.slots[(p.idle.head+i)%len(p.idle.slots)].session.Load()
		if s != nil && isPolled(s.conn) {
			n++
		}
	}
	return n
}

// polls reports whether the pacing thread shall read the replies of p.
func (p *pool) polls() bool {
	return p.Polling.Works() && p.Tls == nil && p.Stateful == nil && p.Network == "tcp" &&
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

// Abandon ends s and what is open on it: nothing is read any more.
func (s *poolConn) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != over {
		s.leave()
	}
}

// Readable takes what has arrived on s, which is polled.
func (s *poolConn) Readable() {
	s.mu.Lock()
	state := s.state
	if state == parked && s.conn.Dead() {
		s.end()
	}
	s.mu.Unlock()
	if state == busy {
		s.read()
	}
}

// read reads what has arrived of the reply.
func (s *poolConn) read() {
	y := s.pool.Polling
	text := y.text[:wire.ReadBuffer-len(s.partial)]
	n, stamp, err := s.conn.Below.(*polled.Socket).Receive(text)
	if errors.Is(err, syscall.EAGAIN) {
		return
	}
	if n > 0 {
		now := s.pool.Clock.Now()
		at, delayed := y.Came(s.attempt.sent, stamp, now)
		s.attempt.arrived, s.attempt.delayed = at, s.attempt.delayed || delayed
		if len(s.partial) == 0 {
			s.attempt.outcome.FirstByte = timeline.MicrosOf(s.attempt.over(now) - s.attempt.written)
		}
	}
	if err == nil {
		err = errNotYet
	}
	if len(s.partial) == 0 {
		s.take(text[:n], err)
		return
	}
	s.partial = append(s.partial, text[:n]...)
	s.take(s.partial, err)
}

// take ends the request by its reply, if that is whole. text is what has come of it so far, and end is why there is
// no more.
func (s *poolConn) take(text []byte, end error) {
	p, y := s.pool, s.pool.Polling
	if len(text) == 0 {
		p.failed(&s.attempt, end, wire.Awaiting, s.conn)
		s.part()
		return
	}
	y.rest = received{text, end}
	y.br.Reset(&y.rest)
	s.conn.Br = y.br
	err := p.readReply(s.conn, &y.reply)
	whole := !errors.Is(err, errNotYet)
	again := whole && p.received(&s.attempt, s.conn, &y.reply, err)
	s.conn.Br = nil
	switch {
	case whole:
		s.partial = s.partial[:0]
		s.goOn(again, err)
	case len(text) == wire.ReadBuffer:
		s.unpoll(text)
	case len(s.partial) == 0:
		s.partial = append(s.partial, text...)
	}
}

// unpoll has a goroutine read the reply, of which text has come, and those that follow on any connection of the target.
func (s *poolConn) unpoll(text []byte) {
	p := s.pool
	p.unpolled.Store(true)
	s.attempt.arrived = 0
	tcp, err := s.conn.Below.(*polled.Socket).GiveBack()
	if err != nil {
		p.failed(&s.attempt, err, replyPhase(&p.Polling.reply), nil)
		s.part()
		p.wg.Done()
		return
	}
	s.conn = s.conn.CarriedBy(tcp)
	s.conn.StartWith(text)
	s.partial = nil
	_ = s.conn.SetDeadline(p.Clock.Wall(p.deadline(&s.attempt))) // an error shows when it is read from
	go func() {
		defer p.wg.Done()
		s.serve()
	}()
}

// A deadline is when a request has failed for want of a reply.
type deadline struct {
	session *poolConn
	seq     uint64
	at      time.Duration
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
		awaited := d.session.awaits(d.seq)
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

// Expire ends the requests whose time is over, and returns when that of the next one is.
func (p *pool) Expire(now time.Duration) (next time.Duration) {
	for {
		d, over, next := p.deadlines.pop(now)
		if !over {
			return min(next, p.expireReprieved(now))
		}
		if until, ok := p.lastChance(&d.session.attempt, now); ok {
			p.reprieves.push(deadline{d.session, d.seq, until})
			continue
		}
		d.session.take(d.session.partial, os.ErrDeadlineExceeded)
	}
}

func (p *pool) expireReprieved(now time.Duration) (next time.Duration) {
	for {
		d, over, next := p.reprieves.pop(now)
		if !over {
			return next
		}
		d.session.take(d.session.partial, os.ErrDeadlineExceeded)
	}
}

// awaits reports whether the pacing thread awaits the reply to request seq on s: it has not come, and no goroutine
// reads it.
func (s *poolConn) awaits(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == busy && s.attempt.Seq == seq && isPolled(s.conn)
}
