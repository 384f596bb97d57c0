package dashboard_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"lapse/internal/cli"
	"lapse/internal/record"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
	"lapse/loadgen/faultserver"
)

// BenchmarkRunWithViewers measures what looking on costs the measurement: a run of 10 s at 2000 requests per second
// without viewers, and with 50, of which 10 never read; and with as many at a tenth of the rate, for the bytes each
// viewer takes.
//
//	go test ./dashboard -run '^$' -bench RunWithViewers -benchtime 3x
//
// The server is in the same process, so compare the lines with each other only.
func BenchmarkRunWithViewers(b *testing.B) {
	faultserver.Prioritize()
	for _, test := range []struct{ perSecond, viewers, silent int }{{2000, 0, 0}, {2000, 50, 10}, {200, 50, 10}} {
		b.Run(fmt.Sprintf("rate=%d/viewers=%d", test.perSecond, test.viewers), func(b *testing.B) {
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer server.Close()
			sum := map[string]float64{}
			for b.Loop() {
				dir := filepath.Join(b.TempDir(), "run")
				var seen func() int64
				runWithPage(b, func(page string) { seen = look(b, page, test.viewers, test.silent) },
					"run", server.URL, "--duration=10s", "--baseline=0s", fmt.Sprintf("--rate=%d", test.perSecond/2), "--dashboard=127.0.0.1:0", "--out="+dir)
				for unit, value := range scheduleError(b, dir) {
					sum[unit] += value
				}
				if test.viewers > 0 {
					sum["kB/s/viewer"] += float64(seen()) / float64(test.viewers-test.silent) / 10 / 1000
				}
			}
			b.ReportMetric(0, "ns/op")
			for unit, value := range sum {
				b.ReportMetric(value/float64(b.N), unit)
			}
		})
	}
}

// runWithPage runs lapse to its end, and hands on the page's address once it is known.
func runWithPage(b *testing.B, open func(page string), args ...string) {
	b.Helper()
	talk, stderr := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		defer stderr.Close()
		exited <- cli.Main(b.Context(), append([]string{"lapse"}, args...), io.Discard, stderr)
	}()
	lines := bufio.NewScanner(talk)
	for lines.Scan() {
		if page, ok := strings.CutPrefix(lines.Text(), "page: "); ok {
			open(page)
		}
	}
	if code := <-exited; code != 0 {
		b.Fatalf("the run ended with exit code %d", code)
	}
}

// look opens so many streams, of which some are never read, and returns how to learn what came, in bytes, once all
// have ended.
func look(b *testing.B, page string, viewers, silent int) func() int64 {
	b.Helper()
	address, err := url.Parse(page)
	if err != nil {
		b.Fatal(err)
	}
	address.Scheme, address.Path = "ws", "/api/v1/stream"
	var readers sync.WaitGroup
	var bytes atomic.Int64
	for i := range viewers {
		conn, _, err := websocket.DefaultDialer.Dial(address.String(), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		if i < silent {
			continue
		}
		readers.Go(func() {
			for {
				_, message, err := conn.NextReader()
				if err != nil {
					return
				}
				n, _ := io.Copy(io.Discard, message)
				bytes.Add(n)
			}
		})
	}
	return func() int64 {
		readers.Wait()
		return bytes.Load()
	}
}

// scheduleError tells how late the judged targets' requests were sent, in microseconds, and what share of the time
// they covered, in percent.
func scheduleError(b *testing.B, dir string) map[string]float64 {
	b.Helper()
	tl := runtest.Timeline(b, dir)
	f, err := record.Open(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var late []time.Duration
	run, err := f.Run()
	if err != nil {
		b.Fatal(err)
	}
	for batch, err := range run.Batches {
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range batch.Requests {
			late = append(late, r.Sent-r.Due)
		}
	}
	slices.Sort(late)
	micro := func(q float64) float64 { return float64(late[int(q*float64(len(late)-1))]) / 1e3 }
	return map[string]float64{"p50-late-µs": micro(0.5), "p99-late-µs": micro(0.99), "p99.9-late-µs": micro(0.999), "%-coverage": 100 * tl.Verdict.Coverage}
}
