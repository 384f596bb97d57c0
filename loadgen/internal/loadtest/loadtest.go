// Package loadtest has what the tests of loadgen and of the packages below it share: servers that do what a test says,
// and ways to wait for an outcome.
package loadtest

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// WaitFor waits until cond holds, as long as a test may take. It fails the test then.
func WaitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tooLong := time.After(2 * time.Minute)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !cond() {
		select {
		case <-poll.C:
		case <-tooLong:
			t.Fatalf("still no %s", what)
		}
	}
}

// Target returns a target with a timeout so long that a server in the same process answers in time on any busy machine.
func Target(id timeline.TargetID, kind timeline.TargetKind, url string, rate float64) timeline.Target {
	return timeline.Target{
		ID:      id,
		Name:    fmt.Sprint(kind, " ", id),
		Kind:    kind,
		URL:     url,
		Rate:    rate,
		Timeout: 20 * time.Second,
	}
}

// Serve starts a server. The test must close it.
func Serve(t testing.TB, c faultserver.Config) *faultserver.Server {
	t.Helper()
	s, err := faultserver.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Close closes a server.
func Close(t testing.TB, s *faultserver.Server) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TCPPair returns both ends of a connection.
func TCPPair(t testing.TB) (ours, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), other.Close() })
	return c.(*net.TCPConn), other.(*net.TCPConn)
}

// DialError returns the error that package net makes of err when it dials.
func DialError(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

// AnswerPings reads, and so lets gorilla answer pings, until the connection ends.
func AnswerPings(c *websocket.Conn) {
	for {
		if _, _, err := c.NextReader(); err != nil {
			return
		}
	}
}
