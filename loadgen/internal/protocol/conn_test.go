//go:build unix

package protocol

import (
	"fmt"
	"net"
	"testing"

	"lapse/loadgen/internal/loadtest"
)

// pair returns both ends of a connection over loopback.
func pair(t *testing.T) (ours *Conn, theirs *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return NewConn(client.(*net.TCPConn)), server.(*net.TCPConn)
}

// What the peer did to an idle connection is known from the kernel, also before any goroutine of ours
// had the time to read it.
func TestDeadConnectionIsSeenBeforeItIsRead(t *testing.T) {
	deaths := map[string]func(*net.TCPConn){
		"closed":      func(c *net.TCPConn) { c.Close() },
		"half closed": func(c *net.TCPConn) { c.CloseWrite() },
		"reset": func(c *net.TCPConn) {
			c.SetLinger(0)
			c.Close()
		},
		"unasked reply": func(c *net.TCPConn) { fmt.Fprint(c, "HTTP/1.1 408 Request Timeout\r\n\r\n") },
	}
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			if ours.Dead() {
				t.Error("dead while alive")
			}
			die(theirs)
			loadtest.WaitFor(t, "death", ours.Dead)
			if want := name == "unasked reply"; ours.Waiting() != want {
				t.Errorf("bytes are waiting: %v", !want)
			}
		})
	}
}
