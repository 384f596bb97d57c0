//go:build unix

package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// childServer, in the environment, makes the test binary a server of that scheme, so that a benchmark's CPU time and
// allocations are the prober's alone.
const childServer = "LAPSE_TEST_SERVE"

// serveAsChild serves until stdin is closed.
func serveAsChild(scheme string) {
	config := faultserver.Config{Name: "pod-a"}
	if scheme == "https" {
		certified := httptest.NewUnstartedServer(nil)
		certified.StartTLS()
		config.TLS = &tls.Config{Certificates: certified.TLS.Certificates}
		certified.Close()
	}
	s, err := faultserver.Start(config)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.URL())
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = s.Close()
}

func startServer(b testing.TB, scheme string) (url string) {
	b.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childServer+"="+scheme)
	child.Stderr = os.Stderr
	input, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = input.Close()
		_ = child.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// benchmark makes b.N requests at a rate, and reports what each costs and how late they leave.
func benchmark(b *testing.B, p Probe, pacing Pacing) {
	p.ID, p.URL = 1, startServer(b, "http")
	var mu sync.Mutex
	n, failed := 0, 0
	late := make([]time.Duration, 0, b.N)
	full := make(chan struct{})
	prober := New(Config{Clock: timeline.StartClock(), Pacing: pacing, Sink: func(fact timeline.Fact) {
		batch, ok := fact.(timeline.Batch)
		if !ok {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range batch.Requests {
			late = append(late, r.Sent-r.Due)
			if r.Class != timeline.OK {
				failed++
			}
		}
		if before := n; before < b.N && before+len(batch.Requests) >= b.N {
			close(full)
		}
		n += len(batch.Requests)
	}})
	if err := prober.Start(p); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	b.ReportAllocs()
	begun := cpuTime()
	var running sync.WaitGroup
	running.Go(func() { _ = prober.Run(ctx) })
	<-full
	cancel()
	running.Wait()
	slices.Sort(late)
	b.ReportMetric(float64((cpuTime()-begun).Microseconds())/float64(n), "cpu-µs/req")
	b.ReportMetric(micros(late[len(late)/2]), "late-p50-µs")
	b.ReportMetric(micros(late[len(late)*99/100]), "late-p99-µs")
	b.ReportMetric(float64(failed), "not-ok")
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func BenchmarkNew(b *testing.B) {
	for _, rate := range []float64{200, 2000} {
		b.Run(fmt.Sprintf("%v-rps", rate), func(b *testing.B) {
			benchmark(b, Probe{Target: timeline.Target{Kind: timeline.New, Rate: rate}}, Economical)
		})
	}
}

func BenchmarkReused(b *testing.B) {
	for _, rate := range []float64{200, 2000, 20_000} {
		b.Run(fmt.Sprintf("%v-rps", rate), func(b *testing.B) {
			benchmark(b, Probe{Target: timeline.Target{Kind: timeline.Reused, Rate: rate}, Connections: 50}, Economical)
		})
	}
}

// BenchmarkBare sends requests as [BenchmarkNew] and [BenchmarkReused] do, one after the other by blocking system calls,
// and records nothing: most of what a prober takes is what its requests take on the same machine.
func BenchmarkBare(b *testing.B) {
	b.Run("new/200-rps", func(b *testing.B) { bare(b, true, 200) })
	b.Run("reused/200-rps", func(b *testing.B) { bare(b, false, 200) })
}

func bare(b *testing.B, anew bool, rate int) {
	at := netip.MustParseAddrPort(strings.Trim(startServer(b, "http"), "htp:/"))
	request := []byte("GET / HTTP/1.1\r\nHost: " + at.String() + "\r\nUser-Agent: lapse\r\n\r\n")
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	var fd int
	connect := func() {
		var err error
		fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		must(err)
		must(syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}))
	}
	if !anew {
		connect()
		defer func() { _ = syscall.Close(fd) }()
	}
	answer := make([]byte, 4096)
	between := syscall.NsecToTimespec(int64(time.Second) / int64(rate))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := cpuTime()
	for range b.N {
		_ = syscall.Nanosleep(&between, nil)
		if anew {
			connect()
		}
		_, err := syscall.Write(fd, request)
		must(err)
		n, err := syscall.Read(fd, answer)
		must(err)
		if !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200")) {
			b.Fatalf("the server answered %q", answer[:n])
		}
		if anew {
			must(syscall.Close(fd))
		}
	}
	b.ReportMetric(float64((cpuTime()-begun).Microseconds())/float64(b.N), "cpu-µs/req")
}

// BenchmarkPacing compares the ways to pace: lateness against CPU time.
func BenchmarkPacing(b *testing.B) {
	for _, rate := range []float64{200, 2000} {
		for _, pacing := range pacings {
			b.Run(fmt.Sprintf("%s/%v-rps", pacing, rate), func(b *testing.B) {
				benchmark(b, Probe{Target: timeline.Target{Kind: timeline.Reused, Rate: rate}, Connections: 50}, pacing)
			})
		}
	}
}
