package faultserver

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"os"
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
	return c
}

// name is who we are, as replies on the connection say.
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
	defer c.server.drop(c)
	defer c.tcp.Close()
	for {
		last, err := readRequest(c.requests)
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
		_, _ = c.Write([]byte(c.reply("200 OK", false))[:len(c.reply("200 OK", false))-len(body)/2])
		return false
	case Error:
		return c.send("503 Service Unavailable", last, false)
	case Stall:
		defer close(c.settled)
		if !c.wait() {
			return false
		}
	case Slow:
		_ = c.SetReadDeadline(time.Now().Add(fault.Delay)) // where it cannot be set, reading fails as well
		if !c.wait() {
			return false
		}
	case Goodbye:
		last = true
	}
	return c.send("200 OK", last, true)
}

// wait waits until the deadline for reading, and reports whether the client was there for so long. One that has left is let
// go at once: a long stall would otherwise keep more files open than a process may have.
func (c *conn) wait() bool {
	_, err := c.requests.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}

// send sends a whole reply.
func (c *conn) send(status string, last, good bool) bool {
	if _, err := c.Write([]byte(c.reply(status, last))); err != nil {
		return false
	}
	c.server.replied(c, good)
	return !last
}

func (c *conn) reply(status string, last bool) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + status + "\r\nContent-Type: text/plain\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	if name := c.name(); name != "" {
		b.WriteString("X-Pod: " + name + "\r\n")
	}
	if last {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n" + body)
	return b.String()
}
