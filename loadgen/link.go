package loadgen

import (
	"time"

	"lapse/timeline"
)

// A link is a connection on which a protocol is spoken.
type link struct {
	conn
	dialog dialog // nil where the protocol is not stateful
}

// newLink returns the link on a new connection.
func newLink(below transport) *link {
	c := new(link)
	c.start(below)
	return c
}

// carriedBy returns the same link on another transport, without a read buffer. c is not to be used any more.
func (c *link) carriedBy(below transport) *link {
	c.release()
	return &link{conn: conn{Conn: below, below: below, peer: c.peer, clock: c.clock}, dialog: c.dialog}
}

// dead reports whether an idle link cannot carry another request. In a dialog the peer may speak without being asked,
// but what was not read yet may announce the end.
func (c *link) dead() bool { return c.conn.dead(c.dialog != nil) }

// takeLeave says farewell on a link that nobody else uses and that is closed next.
func (c *link) takeLeave(clock timeline.Clock) {
	if c.dialog == nil {
		return
	}
	farewell := c.dialog.farewell()
	if len(farewell) == 0 {
		return
	}
	_ = c.SetWriteDeadline(clock.Wall(clock.Now() + time.Second)) // its send buffer is empty: it does not wait
	_, _ = c.Write(farewell)
}
