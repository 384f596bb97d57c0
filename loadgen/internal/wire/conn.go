package wire

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"lapse/timeline"
)

// A Conn is a connection to a target.
type Conn struct {
	net.Conn                // requests and replies: TCP, TLS over it, or a [DatagramSocket]
	Below    Transport      // what lies below
	Br       *bufio.Reader  // nil while the connection holds no read buffer
	Peer     netip.AddrPort // its remote address
	Clock    timeline.Clock
	socket   socket
	Patience patience // of who reads a reply; nil for none
}

// A patience says whether a read that has timed out is to go on, and until when.
type patience interface {
	Extend() (until time.Time, ok bool)
}

// Read reads what has come next. After its deadline it goes on as long as the connection's patience extends it.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if n > 0 || err == nil || !IsTimeout(err) || !c.extend() {
			return n, err
		}
	}
}

// extend sets a later deadline for reading, if there is one.
func (c *Conn) extend() bool {
	if c.Patience == nil {
		return false
	}
	until, ok := c.Patience.Extend()
	return ok && c.SetReadDeadline(until) == nil
}

// ReadBuffer is how many bytes a connection's read buffer has. Of HTTP/1.1 it bounds a chunk line and a trailer.
const ReadBuffer = 4096

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, ReadBuffer) }}

// Start makes c the connection on below, with a read buffer.
func (c *Conn) Start(below Transport) {
	*c = Conn{Conn: below, Below: below}
	c.Unshelve()
}

// Handshake begins TLS.
func (c *Conn) Handshake(config *tls.Config, until time.Time) error {
	secure := tls.Client(c.Below, config)
	if err := secure.SetDeadline(until); err != nil {
		return err
	}
	c.Conn = secure
	c.Br.Reset(c)
	return secure.Handshake()
}

// Abort closes the connection by a reset and releases its memory. Nobody may use c after this.
func (c *Conn) Abort() {
	c.Reset()
	c.Release()
}

// Reset closes the connection with a reset: the reply is here or will not be waited for, and a reset
// leaves no local port in TIME_WAIT (there are 28 232, which 470 connections a second use up) and a
// conntrack entry that expires in 10 s instead of 120. Servers may count a reset after their reply; it
// changes nothing for them.
func (c *Conn) Reset() { reset(c.Below) }

func reset(c Transport) {
	if tcp, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // where it cannot be set, closing is all that is left
	}
	_ = c.Close()
}

// Await waits until something has arrived, or the connection has ended. Without a read buffer, it only looks. Only
// who reads from c may call it.
func (c *Conn) Await() error {
	if c.Br != nil {
		_, err := c.Br.Peek(1)
		return err
	}
	return c.socket.await()
}

// Shelve gives the read buffer back while nothing is expected, where the connection can be waited for without one:
// TLS may have read more than it has handed on.
func (c *Conn) Shelve() {
	if _, secure := c.Conn.(*tls.Conn); secure || c.Br == nil || c.Br.Buffered() > 0 || !c.socket.ready(c.Below) {
		return
	}
	c.Release()
}

// Unshelve gets a read buffer for a connection that has none.
func (c *Conn) Unshelve() {
	if c.Br == nil {
		c.Br = readers.Get().(*bufio.Reader)
		c.Br.Reset(c)
	}
}

// StartWith gets a read buffer for a connection that has none. Its first bytes are text, which was read before.
func (c *Conn) StartWith(text []byte) {
	c.Br = readers.Get().(*bufio.Reader)
	c.Br.Reset(io.MultiReader(bytes.NewReader(bytes.Clone(text)), c))
}

// Release gives the read buffer back, if there is one. Only who reads from c may call it.
func (c *Conn) Release() {
	if c.Br == nil {
		return
	}
	c.Br.Reset(nil)
	readers.Put(c.Br)
	c.Br = nil
}

// Dead reports whether an idle connection cannot carry another request: the peer has closed or reset it, or has sent
// bytes without a request. Over TLS records without a meaning for us may have arrived, unless each counts.
func (c *Conn) Dead(eachCounts bool) bool {
	if c.OutlivesFailures() {
		return false
	}
	switch c.Look() {
	case Nothing:
		return false
	case End:
		return true
	}
	_, secure := c.Conn.(*tls.Conn)
	return !secure || eachCounts || isAlert(c.socket.ahead[:c.socket.length])
}

// OutlivesFailures reports whether the connection can carry further requests after one without an answer: it is a UDP
// socket, and what is still to come in for former requests is not taken for the answer to a later one.
func (c *Conn) OutlivesFailures() bool {
	datagrams, ok := c.Conn.(interface{ identified() bool })
	return ok && datagrams.identified()
}

// An Arrival says what is to be read from a connection.
type Arrival uint8

const (
	Nothing Arrival = iota // yet
	Bytes
	End // the peer has closed or reset it
)

// Look looks at what has arrived, without taking it and without waiting. Most connections that are used once are never
// looked at.
func (c *Conn) Look() Arrival {
	if c.socket.raw == nil {
		c.socket.init(c.Below)
	}
	c.socket.peek()
	switch {
	case errors.Is(c.socket.err, syscall.EAGAIN):
		return Nothing
	case c.socket.err != nil || c.socket.length == 0:
		return End
	}
	return Bytes
}

// AlertRecord is the type of a TLS record (RFC 8446, section 5.1).
const AlertRecord = 21

// isAlert tells the close_notify that ends a TLS connection from records that may come at any time, such
// as session tickets. In TLS 1.3 both pass as application data, but an alert is always 2 bytes
// long, and so 19 with its type and its tag (RFC 8446, section 5.2).
func isAlert(record []byte) bool {
	const applicationData = 23
	if record[0] == AlertRecord {
		return true
	}
	return len(record) == 5 && record[0] == applicationData && record[3] == 0 && record[4] == 2+1+16
}

// Waiting reports whether bytes have arrived that were not read yet.
func (c *Conn) Waiting() bool { return c.Look() == Bytes }
