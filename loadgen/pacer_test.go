package loadgen

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// Each pacing thread gets a processor of its own while it runs, however many come and go at once, and none is left
// over.
func TestPacingThreadsReturnTheirProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var changing sync.WaitGroup
	for range 16 {
		changing.Go(func() {
			for range 20 {
				addProcessors(1)
				addProcessors(-1)
			}
		})
	}
	changing.Wait()
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors, %d before", after, before)
		runtime.GOMAXPROCS(before)
	}
}

// A Service's targets interleave, also where one of them takes long to get ready and others overtake it.
func TestTargetsInterleaveInTheOrderTheyStart(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers the handshake
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	clock, s := timeline.StartClock(), serveTCP(t, greeting(""))
	slow := probe(2, timeline.Reused, "https://"+silent.Addr().String()+"/", 50)
	slow.Timeout = 100 * time.Millisecond
	f := runOn(t, clock, "3 requests of each", func(f *facts) bool { return min(f.count(1), f.count(2), f.count(3)) >= 3 }, probe(1, timeline.New, s.url(), 50), slow, probe(3, timeline.New, s.url(), 50))
	const interval = 20 * time.Millisecond
	for id, want := range map[timeline.TargetID]time.Duration{1: 0, 2: interval / 2, 3: interval / 4} {
		if got := f.of(id)[0].Due % interval; got != want {
			t.Errorf("target %d is due %v into the interval, want %v", id, got, want)
		}
	}
}

// A service that lets us wait from the first connection on is measured all the same.
func TestMeasuringDoesNotWaitForConnections(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers the handshake
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hung := probe(1, timeline.Reused, "https://"+silent.Addr().String()+"/", 100)
	hung.Timeout = time.Hour
	hung.MaxConnections = 100
	run(t, timeline.StartClock(), func(p *Prober, _ *facts) {
		loadtest.WaitFor(t, "3 requests under way", func() bool { return underWay(p, 1) >= 3 })
		p.Abandon()
	}, hung)
}

func TestProbersShareAProcess(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			if err := New(Config{Clock: timeline.StartClock(), Sink: newFacts(t).take}).Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors, %d before", after, before)
	}
}

// Probers of one thread measure as if each had its own: their own targets, on their own clocks, and until they end. The
// thread takes one processor.
func TestProbersShareAThread(t *testing.T) {
	layer.Real(t)
	before := runtime.GOMAXPROCS(0)
	s := serveTCP(t, greeting(""))
	thread, over, ended := NewThread(timeline.StartClock(), Economical, slog.New(slog.DiscardHandler)), make(chan struct{}), make(chan struct{})
	go func() { thread.Run(over); close(ended) }()
	var wellUntil time.Duration
	first := runProber(t, New(Config{Thread: thread, Clock: thread.NewClock(), Source: 1}), func(p *Prober, f *facts) {
		loadtest.WaitFor(t, "20 answers", func() bool { return f.ended(1, timeline.OK) >= 20 })
		clock := thread.NewClock()
		second := runProber(t, New(Config{Thread: thread, Clock: clock, Source: 2}), func(_ *Prober, f *facts) {
			loadtest.WaitFor(t, "10 more answers", func() bool { return f.ended(1, timeline.OK) >= 10 })
			if got := runtime.GOMAXPROCS(0); holdsProcessor && got != before+1 {
				t.Errorf("%d processors for one thread, %d without", got, before)
			}
		}, probe(1, timeline.New, s.url(), 200))
		over := clock.Now()
		if r := second.of(1); r[0].Due < 0 || r[len(r)-1].Due > over {
			t.Errorf("the second prober's first request was due at %v of its clock, its last at %v, and it ended at %v", r[0].Due, r[len(r)-1].Due, over)
		}
		wellUntil = p.thread.clock.Now()
		loadtest.WaitFor(t, "the first one to go on", func() bool {
			r := f.of(1)
			return r[len(r)-1].Due > wellUntil
		})
	}, probe(1, timeline.New, s.url(), 100))
	if n := classes(first.of(1)); n[timeline.OK] != len(first.of(1)) {
		t.Errorf("classes %v", n)
	}
	close(over)
	<-ended
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors, %d before", after, before)
	}
}
