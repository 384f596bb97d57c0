package loadgen

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/timeline"
)

// A reply is over when it arrived, which is before its server's write returns, on the loopback interface: not when
// the pacing thread woke and read it.
func TestRepliesAreOverWhenTheyArrived(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	clock := timeline.StartClock()
	type span struct{ began, ended time.Duration }
	var mu sync.Mutex
	written := map[string]span{}
	url := serveScripts(t, []script{func(c *net.TCPConn, _ int) bool {
		mu.Lock()
		defer mu.Unlock()
		name := fmt.Sprint("reply ", len(written))
		text := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Pod: %s\r\nContent-Length: 0\r\n\r\n", name)
		began := clock.Now()
		_, err := c.Write([]byte(text))
		written[name] = span{began, clock.Now()}
		return err == nil
	}})
	p := probe(1, timeline.Reused, url, 400)
	p.Connections = 4
	f := runOn(t, clock, "300 answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 300 }, p)
	mu.Lock()
	defer mu.Unlock()
	within, sooner, later := 0, 0, 0
	for _, r := range f.of(1) {
		if r.Class != timeline.OK || !r.Reused || r.Delayed {
			continue
		}
		switch w := written[f.backends[r.Backend]]; {
		case r.Done < w.began:
			sooner++
		case r.Done > w.ended+2*wallTolerance+time.Microsecond: // it is rounded up
			later++
		default:
			within++
		}
	}
	// the kernel began with stamps a little later than the first was asked for, or the wall clock was set
	if sooner > 0 || later > within/10 {
		t.Errorf("%d replies were over while they were written, %d sooner, %d later", within, sooner, later)
	}
}
