//go:build linux

package loadgen

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse/timeline"
)

// BenchmarkHeld holds connections for two rounds of heartbeats, which a server in another process answers: what that
// takes of memory and CPU, and how late heartbeats leave. Run it on one core:
// `taskset -c 0 go test ./loadgen -bench Held -run '^$' -benchtime 1x`.
func BenchmarkHeld(b *testing.B) {
	const beat = 5 * time.Second
	for _, conns := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("%d-connections", conns), func(b *testing.B) {
			p := heldProbe(startServer(b, "http"), conns, beat)
			p.Timeout = DefaultTimeout
			before := residentKB(b)
			var mu sync.Mutex
			var late []time.Duration
			opened, cut, failed := 0, 0, 0
			full := make(chan struct{})
			prober := New(Config{Clock: timeline.StartClock(), Sink: func(fact timeline.Fact) {
				mu.Lock()
				defer mu.Unlock()
				switch fact := fact.(type) {
				case timeline.HeldBatch:
					for _, c := range fact.Changes {
						opened += map[bool]int{true: 1}[c.Kind == timeline.HeldOpened]
						cut += map[bool]int{true: 1}[c.Kind == timeline.HeldCut]
					}
				case timeline.Batch:
					n := len(late)
					for _, r := range fact.Requests {
						late = append(late, r.Sent-r.Due)
						failed += map[bool]int{true: 1}[r.Class != timeline.OK]
					}
					if n < 2*conns && len(late) >= 2*conns {
						close(full)
					}
				}
			}})
			if err := prober.Start(p); err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			begun, cpu := time.Now(), cpuTime()
			var running sync.WaitGroup
			running.Go(func() { _ = prober.Run(ctx) })
			<-full
			rss := residentKB(b)
			took, used := time.Since(begun), cpuTime()-cpu
			cancel()
			running.Wait()
			slices.Sort(late)
			b.ReportMetric(float64(rss)/1024, "RSS-MB")
			b.ReportMetric(float64(rss-before)/float64(conns), "KB/conn")
			b.ReportMetric(100*used.Seconds()/took.Seconds(), "cpu-%")
			b.ReportMetric(micros(late[len(late)/2]), "late-p50-µs")
			b.ReportMetric(micros(late[len(late)*99/100]), "late-p99-µs")
			b.ReportMetric(micros(late[len(late)-1]), "late-max-µs")
			b.ReportMetric(float64(opened), "opened")
			b.ReportMetric(float64(cut), "cut")
			b.ReportMetric(float64(failed), "not-ok")
		})
	}
}

// residentKB returns how much memory this process has.
func residentKB(b *testing.B) (kb int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kb); !found || err != nil {
		b.Fatal("no VmRSS", err)
	}
	return kb
}
