//go:build unix

package loadgen

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"lapse/timeline"
)

// pair returns both ends of a connection over loopback.
func pair(t *testing.T) (ours *link, theirs *net.TCPConn) {
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
	return newLink(client.(*net.TCPConn)), server.(*net.TCPConn)
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
			if ours.dead() {
				t.Error("dead while alive")
			}
			die(theirs)
			waitFor(t, "death", ours.dead)
			if want := name == "unasked reply"; ours.waiting() != want {
				t.Errorf("bytes are waiting: %v", !want)
			}
		})
	}
}

// A connection whose reply said Connection: close gets no further request, even while the server leaves it open.
func TestNothingIsSentAfterGoodbye(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	var second atomic.Int64
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				requests := bufio.NewReader(c)
				for n := 0; ; n++ {
					if _, err := http.ReadRequest(requests); err != nil {
						return
					}
					second.Add(int64(min(n, 1)))
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				}
			})
		}
	})
	p := probe(1, timeline.Reused, "http://"+listener.Addr().String(), 200)
	f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
		waitFor(t, "50 requests", func() bool { return f.count(1) >= 50 })
	}, p)
	listener.Close()
	serving.Wait()
	if n := failed(f.of(1)); n > 0 || second.Load() > 0 {
		t.Errorf("%d failed, %d were sent after a goodbye", n, second.Load())
	}
}
