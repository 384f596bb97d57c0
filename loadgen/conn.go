package loadgen

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"lapse/timeline"
)

// A conn is a connection to a target.
type conn struct {
	net.Conn           // requests and replies: TCP, TLS over it, or a datagramSocket
	below    transport // what lies below
	br       *bufio.Reader
	peer     uint16 // the number of its remote address
	clock    timeline.Clock
	socket   socket
	patience patience // of who reads a reply; nil for none
}

// A patience says whether a read that has timed out is to go on, and until when.
type patience interface {
	extend() (until time.Time, ok bool)
}

// Read reads what has come next. After its deadline it goes on as long as the connection's patience extends it.
func (c *conn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if n > 0 || err == nil || !isTimeout(err) || !c.extend() {
			return n, err
		}
	}
}

// extend sets a later deadline for reading, if there is one.
func (c *conn) extend() bool {
	if c.patience == nil {
		return false
	}
	until, ok := c.patience.extend()
	return ok && c.SetReadDeadline(until) == nil
}

// readBuffer is how many bytes a connection's read buffer has. Of HTTP/1.1 it bounds a chunk line and a trailer.
const readBuffer = 4096

// A transport is a connection as the kernel has it: a *net.TCPConn, a *net.UDPConn or a *polledSocket.
type transport interface {
	net.Conn
	syscall.Conn
}

// A socket looks at what has arrived on a connection, without taking it and without waiting.
type socket struct {
	raw    syscall.RawConn
	look   func(fd uintptr)
	ahead  [5]byte // what has arrived: enough for the head of a TLS record
	length int     // of ahead; 0 if the peer closed
	err    error   // EAGAIN if nothing has arrived
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }}

// start makes c the connection on below, with a read buffer.
func (c *conn) start(below transport) {
	*c = conn{Conn: below, below: below}
	c.unshelve()
}

func (c *conn) handshake(config *tls.Config, until time.Time) error {
	secure := tls.Client(c.below, config)
	if err := secure.SetDeadline(until); err != nil {
		return err
	}
	c.Conn = secure
	c.br.Reset(c)
	return secure.Handshake()
}

// abort closes the connection by a reset and releases its memory. Nobody may use c after this.
func (c *conn) abort() {
	c.reset()
	c.release()
}

// reset closes the connection with a reset: the reply is here or will not be waited for, and a reset
// leaves no local port in TIME_WAIT (there are 28 232, which 470 connections a second use up) and a
// conntrack entry that expires in 10 s instead of 120. Servers may count a reset after their reply; it
// changes nothing for them.
func (c *conn) reset() { reset(c.below) }

func reset(c transport) {
	if tcp, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // where it cannot be set, closing is all that is left
	}
	_ = c.Close()
}

// await waits until something has arrived, or the connection has ended. Without a read buffer, it only looks. Only
// who reads from c may call it.
func (c *conn) await() error {
	if c.br != nil {
		_, err := c.br.Peek(1)
		return err
	}
	return c.socket.await()
}

// shelve gives the read buffer back while nothing is expected, where the connection can be waited for without one:
// TLS may have read more than it has handed on.
func (c *conn) shelve() {
	if _, secure := c.Conn.(*tls.Conn); secure || c.br == nil || c.br.Buffered() > 0 || !c.socket.ready(c.below) {
		return
	}
	c.release()
}

// unshelve gets a read buffer for a connection that has none.
func (c *conn) unshelve() {
	if c.br == nil {
		c.br = readers.Get().(*bufio.Reader)
		c.br.Reset(c)
	}
}

// startWith gets a read buffer for a connection that has none. Its first bytes are text, which was read before.
func (c *conn) startWith(text []byte) {
	c.br = readers.Get().(*bufio.Reader)
	c.br.Reset(io.MultiReader(bytes.NewReader(bytes.Clone(text)), c))
}

// release gives the read buffer back, if there is one. Only who reads from c may call it.
func (c *conn) release() {
	if c.br == nil {
		return
	}
	c.br.Reset(nil)
	readers.Put(c.br)
	c.br = nil
}

// dead reports whether an idle connection cannot carry another request: the peer has closed or reset it, or has sent
// bytes without a request. Over TLS records without a meaning for us may have arrived, unless each counts.
func (c *conn) dead(eachCounts bool) bool {
	if c.outlivesFailures() {
		return false
	}
	c.peek()
	switch {
	case errors.Is(c.socket.err, syscall.EAGAIN):
		return false
	case c.socket.err != nil || c.socket.length == 0:
		return true
	}
	_, secure := c.Conn.(*tls.Conn)
	return !secure || eachCounts || isAlert(c.socket.ahead[:c.socket.length])
}

// outlivesFailures reports whether the connection can carry further requests after one without an answer: it is a UDP
// socket, and what is still to come in for former requests is not taken for the answer to a later one.
func (c *conn) outlivesFailures() bool {
	datagrams, ok := c.Conn.(*datagramSocket)
	return ok && datagrams.identified()
}

// peek looks at what has arrived. Most connections that are used once are never looked at.
func (c *conn) peek() {
	if c.socket.raw == nil {
		c.socket.init(c.below)
	}
	c.socket.peek()
}

const alertRecord = 21 // the type of a TLS record (RFC 8446, section 5.1)

// isAlert tells the close_notify that ends a TLS connection from records that may come at any time, such
// as session tickets. In TLS 1.3 both pass as application data, but an alert is always 2 bytes
// long, and so 19 with its type and its tag (RFC 8446, section 5.2).
func isAlert(record []byte) bool {
	const applicationData = 23
	if record[0] == alertRecord {
		return true
	}
	return len(record) == 5 && record[0] == applicationData && record[3] == 0 && record[4] == 2+1+16
}

// waiting reports whether bytes have arrived that were not read yet.
func (c *conn) waiting() bool {
	c.peek()
	return c.socket.err == nil && c.socket.length > 0
}
