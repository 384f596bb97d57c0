// Package places bounds how many connections an HTTP server holds open, so that a flood of them cannot take memory and
// file descriptors away from a measurement. Connections whose request has not come make room for new ones: who only
// opens connections locks nobody out.
//
//	server := &http.Server{Handler: h}
//	err := server.Serve(places.Limit(server, listener, 256))
package places

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// Limit returns a listener for a server that holds at most n connections open. Where all n are taken, the one that has
// been without a request for the longest is closed. Where all of them have one, a new connection waits. Limit changes
// the server's Handler, ConnContext and ConnState: call it once, before the server serves.
func Limit(server *http.Server, ln net.Listener, n int) net.Listener {
	l := &listener{Listener: ln, n: n}
	l.changed.L = &l.mu
	handler := server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, place{}, accepted(c))
	}
	// A connection is idle once the answer has been sent, which is after the handler has returned.
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if c, ok := accepted(c).(*conn); ok && state == http.StateIdle {
			l.idle(c)
		}
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(place{}).(*conn); ok {
			l.begin(c)
		}
		handler.ServeHTTP(w, r)
	})
	return l
}

// place is the key of a request's connection.
type place struct{}

// accepted returns the connection that the listener returned, without TLS.
func accepted(c net.Conn) net.Conn {
	if encrypted, ok := c.(interface{ NetConn() net.Conn }); ok {
		return encrypted.NetConn()
	}
	return c
}

type listener struct {
	net.Listener
	n int

	mu      sync.Mutex
	changed sync.Cond
	open    int
	waiting []*conn // for a request, the longest first
	closed  bool
}

// A conn is a connection that has a place.
type conn struct {
	net.Conn
	l    *listener
	busy bool // has a request under way; guarded by l.mu
	left bool // guarded by l.mu
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.open >= l.n && !l.closed {
		if len(l.waiting) == 0 {
			l.changed.Wait()
			continue
		}
		oldest := l.waiting[0]
		l.leave(oldest)
		_ = oldest.Conn.Close() // the server closes it as well
	}
	if l.closed {
		_ = raw.Close()
		return nil, net.ErrClosed
	}
	c := &conn{Conn: raw, l: l}
	l.open++
	l.waiting = append(l.waiting, c)
	return c, nil
}

func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

func (c *conn) Close() error {
	c.l.mu.Lock()
	c.l.leave(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// leave gives up a connection's place. The caller holds mu.
func (l *listener) leave(c *conn) {
	if !c.left {
		c.left = true
		l.open--
		l.remove(c)
		l.changed.Broadcast()
	}
}

func (l *listener) remove(c *conn) {
	l.waiting = slices.DeleteFunc(l.waiting, func(other *conn) bool { return other == c })
}

func (l *listener) begin(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.busy = true
	l.remove(c)
}

func (l *listener) idle(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.busy && !c.left {
		l.waiting = append(l.waiting, c)
		l.changed.Broadcast()
	}
	c.busy = false
}
