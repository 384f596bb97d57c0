package faultserver

// An echo reads a line and sends it back. An error is another line.
type echo struct {
	*http1
	line []byte
}

func newEcho(c *conn) speech { return &echo{http1: &http1{requests: c.requests}} }

func (e *echo) read() (last bool, err error) {
	e.line, err = e.requests.ReadBytes('\n')
	return false, err
}

func (e *echo) reply(good, _ bool) []byte {
	if good {
		return e.line
	}
	return append([]byte("another line than "), e.line...)
}

func (e *echo) cut() []byte { return e.line[:len(e.line)-1] }
