package loadgen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"lapse/loadgen/internal/wire"
)

// A control is the server behind the control target.
type control struct {
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
	closed   bool
}

var controlReply = []byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")

// ServeControl starts the server that a control target asks, and returns its address. It runs inside the
// prober and answers at once, so where requests to it fail or stall, the prober was the problem. It
// listens on the loopback interface, and ends with ctx.
func ServeControl(ctx context.Context) (netip.AddrPort, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("control server: %w", err)
	}
	c := &control{listener: listener, conns: map[net.Conn]bool{}}
	c.wg.Go(c.accept)
	context.AfterFunc(ctx, func() {
		c.close()
		c.wg.Wait()
	})
	return listener.Addr().(*net.TCPAddr).AddrPort(), nil
}

func (c *control) accept() {
	for {
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no file descriptor left, most likely: the control target shows it
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if c.keep(conn) {
			c.wg.Go(func() { c.serve(conn) })
		}
	}
}

func (c *control) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return false
	}
	c.conns[conn] = true
	return true
}

// serve answers every request. It only looks for the end of its header.
func (c *control) serve(conn net.Conn) {
	defer c.drop(conn)
	requests := bufio.NewReaderSize(conn, wire.ReadBuffer)
	for {
		line, err := requests.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return
		}
		if len(line) > 2 {
			continue
		}
		if _, err := conn.Write(controlReply); err != nil {
			return
		}
	}
}

func (c *control) drop(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	_ = conn.Close()
}

func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	_ = c.listener.Close()
	for conn := range c.conns {
		_ = conn.Close()
	}
}
