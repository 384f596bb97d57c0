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

	"lapse/internal/layer"
	"lapse/timeline"
)

// A connection whose reply said Connection: close gets no further request, even while the server leaves it open.
func TestNothingIsSentAfterGoodbye(t *testing.T) {
	layer.Real(t)
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
	f := runUntil(t, "50 requests", func(f *facts) bool { return f.count(1) >= 50 }, p)
	listener.Close()
	serving.Wait()
	if n := failed(f.of(1)); n > 0 || second.Load() > 0 {
		t.Errorf("%d failed, %d were sent after a goodbye", n, second.Load())
	}
}
