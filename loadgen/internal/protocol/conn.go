package protocol

import (
	"time"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A Conn is a connection on which a protocol is spoken.
type Conn struct {
	wire.Conn
	Dialog Dialog // nil where the protocol is not stateful
}

// NewConn returns a connection on below, with a read buffer.
func NewConn(below wire.Transport) *Conn {
	c := new(Conn)
	c.Start(below)
	return c
}

// CarriedBy returns the same connection on another transport, without a read buffer. c is not to be used any more.
func (c *Conn) CarriedBy(below wire.Transport) *Conn {
	c.Release()
	return &Conn{Conn: wire.Conn{Conn: below, Below: below, Peer: c.Peer, Clock: c.Clock}, Dialog: c.Dialog}
}

// Dead reports whether an idle connection cannot carry another request. In a dialog the peer may speak without being
// asked, but what was not read yet may announce the end.
func (c *Conn) Dead() bool { return c.Conn.Dead(c.Dialog != nil) }

// TakeLeave says farewell on a connection that is closed next. The caller alone uses it.
func (c *Conn) TakeLeave(clock timeline.Clock) {
	if c.Dialog == nil {
		return
	}
	farewell := c.Dialog.Farewell()
	if len(farewell) == 0 {
		return
	}
	_ = c.SetWriteDeadline(clock.Wall(clock.Now() + time.Second)) // its send buffer is empty: it does not wait
	_, _ = c.Write(farewell)
}
