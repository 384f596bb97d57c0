package engine

import (
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A streams engine sends requests on persistent connections of HTTP/2, which carry several at once, each on a stream
// of its own. It serves reused targets.
//
// It keeps a fixed number of connections and uses them in turn, as a pool does. But a connection whose replies are
// awaited takes further requests, up to the limit that its server has set (SETTINGS_MAX_CONCURRENT_STREAMS): so do
// clients of gRPC, and a slow reply opens no other connection. Only where no kept connection takes a request is a
// spare one opened, so that as many requests are sent as were due: while a connection is being opened, where the
// server's limit is reached on each, and where nothing comes back for what was written.
//
// The pacing thread writes the requests. A goroutine of the connection's own reads the frames. Each request has its
// own end:
//
//	the connection ends            every request that is open on it has failed
//	GOAWAY                         those above its last stream have failed, the others may finish
//	RST_STREAM, a malformed reply  that request has failed, and the connection goes on
//	no reply in time               that request is given up by RST_STREAM, and the connection goes on
type streams struct {
	*Requester
	wg       sync.WaitGroup
	starting atomic.Int64 // requests that wait for their goroutine to begin connecting
	turn     atomic.Uint64
	inUse    atomic.Int64 // open requests
	kept     []streamSlot

	mu      sync.Mutex
	conns   map[*streamConn]bool // those that are served; true: beyond those kept
	closing bool
}

// A streamSlot is a place for one of the connections that are kept.
type streamSlot struct {
	conn     atomic.Pointer[streamConn] // nil while there is none that takes requests
	dialling atomic.Bool
}

const (
	// mostUnread is how many bytes are written on a connection while nothing comes back, before it takes no further
	// requests. With streamSendBuffer they fit into its send buffer: the pacing thread does not wait.
	mostUnread       = 64 << 10
	streamSendBuffer = 4 * mostUnread // asked for; Linux gives up to net.core.wmem_max, 208 KiB by default

	// longestWrite is how long a write on such a connection waits at the most before the connection is given up. None
	// should wait.
	longestWrite = time.Second
)

func newStreams(q *Requester) *streams {
	return &streams{Requester: q, kept: make([]streamSlot, q.Keep), conns: map[*streamConn]bool{}}
}

// Prepare connects all that are kept. It waits until they are connected or have failed, but not for long, as a pool
// does.
func (e *streams) Prepare() {
	for i := range e.kept {
		e.kept[i].dialling.Store(true)
	}
	tryEach(&e.wg, len(e.kept), timeline.MaxLateness(e.interval()), func(i int, tried func()) {
		defer tried()
		e.connectAhead(&e.kept[i])
	})
}

// connectAhead connects s for its first request, which tries again if this fails.
func (e *streams) connectAhead(s *streamSlot) {
	c, _, err := e.dial(e.Clock.Now() + e.Timeout)
	if err != nil {
		s.dialling.Store(false)
		e.Log.Debug("cannot connect ahead of need", "err", err)
		return
	}
	e.serve(e.newConn(s, c))
}

func (e *streams) Send(j Job) {
	if open, most := e.inUse.Load(), int64(e.MaxOpen()); open >= most {
		e.Refuse(j, refusal(open-e.starting.Load()-e.Ports.Choosing.Load(), most))
		return
	}
	e.inUse.Add(1)
	if len(e.Message) > protocol.LongestInlineSend {
		e.start(func() {
			if s, sent := e.place(j); !sent {
				e.sendAnew(s, j)
			}
		})
	} else if s, sent := e.place(j); !sent {
		e.start(func() { e.sendAnew(s, j) })
	}
}

// start has a goroutine do what may take long.
func (e *streams) start(do func()) {
	e.starting.Add(1)
	e.wg.Go(func() {
		e.starting.Add(-1)
		do()
	})
}

// place sends j on an open connection that takes it. Otherwise it returns the slot for which a new one is to be
// opened: nil for a spare one.
func (e *streams) place(j Job) (s *streamSlot, sent bool) {
	first := e.turn.Add(1)
	for i := range e.kept {
		s := &e.kept[(first+uint64(i))%uint64(len(e.kept))]
		if c := s.conn.Load(); c != nil && c.send(j) {
			return nil, true
		}
		if s.conn.Load() == nil && s.dialling.CompareAndSwap(false, true) {
			return s, false
		}
	}
	for _, c := range e.spares() {
		if c.send(j) {
			return nil, true
		}
	}
	return nil, false
}

// spares returns the connections beyond those kept.
func (e *streams) spares() (spares []*streamConn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c, spare := range e.conns {
		if spare {
			spares = append(spares, c)
		}
	}
	return spares
}

// sendAnew sends on a new connection, for s if that is not nil.
func (e *streams) sendAnew(s *streamSlot, j Job) {
	a, below := e.connect(j)
	if below == nil {
		e.inUse.Add(-1)
		if s != nil {
			s.dialling.Store(false)
		}
		return
	}
	c := e.newConn(s, below)
	c.mu.Lock()
	c.write(a)
	c.mu.Unlock()
	e.serve(c)
}

// newConn readies a connection, which nothing else uses yet. s is nil for a spare one.
func (e *streams) newConn(s *streamSlot, below *protocol.Conn) *streamConn {
	c := &streamConn{engine: e, slot: s, conn: below, http2: below.Dialog.(*protocol.HTTP2Conn)}
	_ = below.SetDeadline(time.Time{}) // an error shows at the first use
	if tcp, ok := below.Below.(interface{ SetWriteBuffer(int) error }); ok {
		_ = tcp.SetWriteBuffer(streamSendBuffer)
	}
	c.http2.W, c.unused = c, e.Clock.Now()
	return c
}

// serve lets others use c, and reads from it until it ends.
func (e *streams) serve(c *streamConn) {
	e.mu.Lock()
	e.conns[c] = c.slot == nil
	closing := e.closing
	e.mu.Unlock()
	c.occupy()
	if closing {
		c.dismiss()
	}
	e.wg.Go(func() {
		for c.step() {
		}
		c.conn.Release()
		e.mu.Lock()
		delete(e.conns, c)
		e.mu.Unlock()
	})
}

func (e *streams) Close() {
	e.mu.Lock()
	e.closing = true
	conns := slices.Collect(maps.Keys(e.conns))
	e.mu.Unlock()
	for _, c := range conns {
		c.dismiss()
	}
	e.wg.Wait()
}

// A streamConn is a connection and the requests that are open on it.
type streamConn struct {
	engine *streams
	slot   *streamSlot    // nil for a spare one
	conn   *protocol.Conn // its read buffer belongs to the goroutine that serves it

	mu     sync.Mutex
	http2  *protocol.HTTP2Conn
	free   []*call       // to be used again
	used   bool          // has carried a request
	ending bool          // takes no further request, and ends with the last that is open
	over   bool          // has ended
	unused time.Duration // since when no request is open
	timer  *time.Timer   // calls expire
	timing bool          // timer is set,
	wakes  time.Duration // for this instant
}

// send sends j on a new stream, unless the connection takes no request now; then it reports false, and nothing was
// written.
func (c *streamConn) send(j Job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.room() {
		return false
	}
	sent := c.engine.Clock.Now() // before the look, so that what the look misses came after Sent
	if c.gone() {
		return false
	}
	c.write(c.engine.attempt(j, sent))
	return true
}

// room reports whether another stream may be opened. The caller holds mu.
func (c *streamConn) room() bool {
	h := c.http2
	return !c.ending && h.GoAway == "" && !h.Torn && !h.Spent() && len(h.Open) < int(h.Most) &&
		(h.Silent == 0 || h.Silent+len(c.engine.Message) <= mostUnread)
}

// gone reports whether the peer has closed the connection, or may have announced that in bytes that were not read yet.
// Where requests are open, what has arrived is a reply to them. The caller holds mu.
func (c *streamConn) gone() bool {
	switch c.conn.Look() {
	case wire.Nothing:
		return false
	case wire.End:
		c.depart() // the goroutine that reads finds out how
		return true
	}
	return len(c.http2.Open) == 0
}

// occupy takes the slot, if there is one and the connection has not ended since.
func (c *streamConn) occupy() {
	if c.slot == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ending {
		c.slot.conn.Store(c)
	}
	c.slot.dialling.Store(false)
}

// depart leaves the slot, so that its next request opens a connection. The caller holds mu.
func (c *streamConn) depart() {
	c.ending = true
	if c.slot != nil {
		c.slot.conn.CompareAndSwap(c, nil)
	}
}

// write sends a on a new stream. The caller holds mu.
func (c *streamConn) write(attempt attempt) {
	e, s := c.engine, c.stream()
	s.attempt = attempt
	a := &s.attempt
	a.outcome.Reused, a.outcome.Peer = c.used, e.Peers.id(c.conn.Peer)
	c.used = true
	message := c.http2.Begin(&s.HTTP2Stream)
	s.StartReply(&s.reply)
	_, err := c.Write(message)
	a.written = e.Clock.Now()
	a.held = e.Stalls.Stopped(a.written) - a.stopped
	if err == nil {
		c.await(e.deadline(a))
		return
	}
	c.http2.Torn = true
	c.http2.GiveUp(&s.HTTP2Stream)
	e.failed(a, err, wire.Sending, nil)
	c.release(s)
	c.depart()
	if wire.IsTimeout(err) { // otherwise whoever reads meets an error as well, after the replies that have come
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// Write writes to the peer. It should not have to wait: see mostUnread.
func (c *streamConn) Write(message []byte) (int, error) {
	clock := c.engine.Clock
	if err := c.conn.SetWriteDeadline(clock.Wall(clock.Now() + longestWrite)); err != nil {
		return 0, err
	}
	return c.conn.Write(message)
}

// A call is one request on a stream of its own.
type call struct {
	protocol.HTTP2Stream
	attempt attempt
	reply   protocol.Reply
}

// stream returns a call for a further request. The caller holds mu.
func (c *streamConn) stream() *call {
	if last := len(c.free) - 1; last >= 0 {
		s := c.free[last]
		c.free = c.free[:last]
		return s
	}
	s := &call{HTTP2Stream: protocol.HTTP2Stream{Parser: c.http2.Only.Parser.Another()}}
	s.Owner = s
	return s
}

// release ends what a request took. The caller holds mu.
func (c *streamConn) release(s *call) {
	c.free = append(c.free, s)
	c.unused = c.engine.Clock.Now()
	c.engine.inUse.Add(-1)
}

// step reads a frame, does what it asks for, and reports whether the connection goes on.
func (c *streamConn) step() bool {
	f, err := c.http2.Frame()
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.http2.Take(f, err)
	for _, s := range c.http2.Ended {
		c.finish(s.Owner.(*call), s.Err)
	}
	if err != nil {
		c.lost(err)
	}
	if h := c.http2; h.GoAway != "" || h.Spent() && len(h.Open) == 0 {
		c.depart()
	}
	if c.ending && !c.over && len(c.http2.Open) == 0 {
		c.end()
	}
	return !c.over
}

// finish ends a request whose reply is whole, or is not because of err. The caller holds mu.
func (c *streamConn) finish(s *call, err error) {
	c.engine.received(&s.attempt, c.conn, &s.reply, err)
	c.release(s)
}

// lost ends the connection, and with it each request that is open. The caller holds mu.
func (c *streamConn) lost(err error) {
	if c.over {
		return
	}
	for _, s := range c.http2.Open {
		c.finish(s.Owner.(*call), c.http2.Cut(err, s.Reply))
	}
	c.http2.Open = nil
	c.end()
}

// end closes the connection, on which no request is open. The caller holds mu.
func (c *streamConn) end() {
	c.conclude()
	c.conn.Reset()
}

func (c *streamConn) conclude() {
	c.depart()
	c.over = true
	if c.timing && c.timer.Stop() {
		c.timing = false
		c.engine.wg.Done()
	}
}

// dismiss ends the connection, or has it end with the last request that is open on it.
func (c *streamConn) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.depart()
	c.retire()
}

// retire says farewell and ends the connection, if no request is open on it. The caller holds mu.
func (c *streamConn) retire() {
	if c.over || len(c.http2.Open) > 0 {
		return
	}
	_, _ = c.Write(c.http2.Farewell())
	c.conclude()
	_ = c.conn.Below.Close()
}

// await has expire called at until, or before. The caller holds mu.
func (c *streamConn) await(until time.Duration) {
	switch {
	case c.timing && c.wakes <= until:
		return
	case c.timing && !c.timer.Stop():
		return // it is being called
	case !c.timing:
		c.engine.wg.Add(1)
	}
	c.timing, c.wakes = true, until
	wait := until - c.engine.Clock.Now()
	if c.timer == nil {
		c.timer = time.AfterFunc(wait, c.expire)
	} else {
		c.timer.Reset(wait)
	}
}

// expire gives up the requests whose time is over, and waits for the next one's. It ends a spare connection that was
// not used for a while.
func (c *streamConn) expire() {
	defer c.engine.wg.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timing = false
	if c.over {
		return
	}
	next := never
	for _, open := range slices.Clone(c.http2.Open) {
		s := open.Owner.(*call)
		if until := c.awaited(s); until > 0 {
			next = min(next, until)
		} else {
			c.giveUp(s)
		}
	}
	switch h := c.http2; {
	case next != never:
		c.await(next)
	case c.ending || h.Silent > mostUnread || h.Spent():
		c.end()
	case c.slot == nil && c.engine.Clock.Now() >= c.unused+spareIdle:
		c.retire()
	case c.slot == nil:
		c.await(c.unused + spareIdle)
	}
}

// awaited returns until when the reply to s is awaited; 0 if its time is over.
func (c *streamConn) awaited(s *call) time.Duration {
	e, now := c.engine, c.engine.Clock.Now()
	if until := e.deadline(&s.attempt); now < until {
		return until
	}
	until, ok := e.lastChance(&s.attempt, now)
	if !ok {
		return 0
	}
	return until
}

// giveUp ends a request whose reply did not come in time, and cancels it at the peer. The caller holds mu.
func (c *streamConn) giveUp(s *call) {
	message := c.http2.GiveUp(&s.HTTP2Stream)
	if !c.http2.Torn && c.http2.Silent <= mostUnread {
		_, err := c.Write(message)
		c.http2.Torn = c.http2.Torn || err != nil
	}
	c.engine.failed(&s.attempt, os.ErrDeadlineExceeded, replyPhase(&s.reply), c.conn)
	c.release(s)
}
