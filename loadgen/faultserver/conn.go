package faultserver

import (
	"bufio"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"time"
)

const body = "this is the whole answer\n"

// A conn is one client's connection.
type conn struct {
	net.Conn
	server   *Server
	tcp      *net.TCPConn
	requests *bufio.Reader
	speech   speech
	number   int
	idle     bool          // no request is open; guarded by Server.mu
	settled  chan struct{} // closed when its stalled request is answered, or its client has left
}

func newConn(s *Server, tcp *net.TCPConn, number int) *conn {
	c := &conn{Conn: tcp, server: s, tcp: tcp, number: number, idle: true}
	if s.config.TLS != nil {
		c.Conn = tls.Server(tcp, s.config.TLS)
	}
	c.requests = bufio.NewReader(c)
	c.speech = speeches[s.config.Protocol](c)
	return c
}

// name returns who we are, as replies on the connection say.
func (c *conn) name() string {
	if c.server.config.Number {
		return c.server.config.Name + "-" + strconv.Itoa(c.number)
	}
	return c.server.config.Name
}

// cut resets the connection.
func (c *conn) cut() {
	_ = c.tcp.SetLinger(0)
	_ = c.tcp.Close()
}

func (c *conn) serve() {
	defer c.drop()
	defer c.tcp.Close()
	for {
		last, err := c.speech.read()
		if err != nil {
			return
		}
		fault, served := c.server.verdict(c)
		if !served || !c.answer(fault, last) {
			return
		}
	}
}

// readRequest reads a request's header, and tells whether it asks for the connection to be closed.
func readRequest(requests *bufio.Reader) (last bool, err error) {
	for {
		line, err := requests.ReadString('\n')
		if err != nil {
			return false, err
		}
		line = strings.TrimSpace(line)
		if line == "" {
			return last, nil
		}
		last = last || strings.EqualFold(line, "Connection: close")
	}
}

// answer does to a request what fault says, and reports whether the connection goes on.
func (c *conn) answer(fault Fault, last bool) bool {
	switch fault.Kind {
	case Reset:
		c.cut()
		return false
	case EOF:
		return false
	case Truncate:
		_, _ = c.Write(c.speech.cut())
		return false
	case Error:
		return c.send(false, last)
	case Stall:
		defer c.settle()
		if gone, gaveUp := c.wait(); gone || gaveUp {
			return c.released(gaveUp)
		}
	case Slow:
		_ = c.SetReadDeadline(time.Now().Add(fault.Delay)) // where it cannot be set, reading fails as well
		if gone, gaveUp := c.wait(); gone || gaveUp {
			return c.released(gaveUp)
		}
	case Goodbye:
		last = true
	}
	return c.send(true, last)
}

// wait waits until the deadline for reading, and reports whether the client has left or given its request up before.
// One that has is let go at once: a long stall would otherwise keep more files open than a process may have.
func (c *conn) wait() (gone, gaveUp bool) {
	if gone, gaveUp = c.speech.left(); gone {
		return true, false
	}
	return c.SetReadDeadline(time.Time{}) != nil, gaveUp
}

// settle notes that a stalled request waits no longer. The server does not end the wait of the next one in its stead.
func (c *conn) settle() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	close(c.settled)
	_ = c.SetReadDeadline(time.Time{}) // where it cannot be set, the connection is gone
}

// released ends a request that gets no answer. It reports whether the connection goes on.
func (c *conn) released(gaveUp bool) bool {
	if gaveUp {
		c.replied(false)
	}
	return gaveUp
}

// send sends a whole reply.
func (c *conn) send(good, last bool) bool {
	if _, err := c.Write(c.speech.reply(good, last)); err != nil {
		return false
	}
	c.replied(good)
	return !last
}

// replied notes a good answer, and that c waits for its next request.
func (c *conn) replied(good bool) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.idle = true
	if good {
		c.server.answered++
	}
}

// endWait ends the wait of a stalled request, unless its client has left or given it up.
func (c *conn) endWait(settled chan struct{}) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	select {
	case <-settled:
	default:
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
}

func (c *conn) drop() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	delete(c.server.conns, c)
}
