package engine

import (
	"errors"
	"os"
	"syscall"
	"time"

	"lapse/loadgen/internal/polled"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// This file is about connections whose replies the pacing thread itself reads: plain TCP, and a protocol without a
// state of its own. A reply is taken when it is here whole, up to the size of the read buffer. A target with longer
// ones goes back to goroutines.

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

// Expire ends the requests whose time is over, and returns when that of the next one is.
func (p *pool) Expire(now time.Duration) (next time.Duration) {
	for {
		d, over, next := p.deadlines.pop(now)
		if !over {
			return min(next, p.expireReprieved(now))
		}
		if until, ok := p.lastChance(&d.conn.attempt, now); ok {
			p.reprieves.push(deadline{d.conn, d.seq, until})
			continue
		}
		d.conn.take(d.conn.partial, os.ErrDeadlineExceeded)
	}
}

func (p *pool) expireReprieved(now time.Duration) (next time.Duration) {
	for {
		d, over, next := p.reprieves.pop(now)
		if !over {
			return next
		}
		d.conn.take(d.conn.partial, os.ErrDeadlineExceeded)
	}
}
