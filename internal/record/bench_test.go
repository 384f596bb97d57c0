package record

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"lapse/timeline"
)

// seconds is n seconds of a run with one target at 2000 requests per second and a control at 100, in
// batches of 100 ms.
func seconds(n int, kind timeline.TargetKind) [][]timeline.Fact {
	f := newFake(1)
	all := make([][]timeline.Fact, n)
	for i := range all {
		for range 10 {
			b := f.batch(1, kind, 500*time.Microsecond, 200)
			control := f.batch(2, timeline.Control, 10*time.Millisecond, 10)
			b.Requests = append(b.Requests, control.Requests...)
			now := b.Requests[199].Due + time.Duration(f.rng.IntN(500))*time.Microsecond
			b.Watermarks = []timeline.Watermark{{Target: 1, Due: now}, {Target: 2, Due: now + time.Microsecond}}
			all[i] = append(all[i], b)
		}
	}
	return all
}

// BenchmarkWrite records at 2000 requests per second, one block per second, as in a run. The lengths
// are spread as in a real run on a quiet loopback (see shares), but smoothed, and know nothing of each
// other, which costs a fifth more.
func BenchmarkWrite(b *testing.B) {
	for _, kind := range []timeline.TargetKind{timeline.Reused, timeline.New} {
		b.Run(string(kind), func(b *testing.B) { benchmarkWrite(b, seconds(30, kind)) })
	}
}

func benchmarkWrite(b *testing.B, run [][]timeline.Fact) {
	var size int64
	for b.Loop() {
		w, err := Create(filepath.Join(b.TempDir(), "run.lapse"))
		if err != nil {
			b.Fatal(err)
		}
		for _, second := range run {
			for _, fact := range second {
				if err := w.Append(fact); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				b.Fatal(err)
			}
		}
		size = w.Size()
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	requests := float64(len(run) * 2100)
	b.ReportMetric(float64(size)/requests, "bytes/request")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/requests, "ns/request")
}

// BenchmarkRead makes one pass over a run's batches.
func BenchmarkRead(b *testing.B) {
	var facts []timeline.Fact
	for _, second := range seconds(100, timeline.Reused) {
		facts = append(facts, second...)
	}
	f, err := Open(write(b, facts, 10))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	run, err := f.Run()
	if err != nil {
		b.Fatal(err)
	}
	requests := 0
	for b.Loop() {
		requests = 0
		for batch, err := range run.Batches {
			if err != nil {
				b.Fatal(err)
			}
			requests += len(batch.Requests)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(requests), "ns/request")
}

// TestMemoryOfAWriterDoesNotGrowWithTheRun records a thousand seconds, and holds no more at their end
// than after the first tenth.
func TestMemoryOfAWriterDoesNotGrowWithTheRun(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "run.lapse"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var early uint64
	run := seconds(10, timeline.New)
	for second := range 1000 {
		for _, fact := range run[second%len(run)] {
			if err := w.Append(fact); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if second == 100 {
			early = heap()
		}
	}
	if late := heap(); late > early+256<<10 {
		t.Errorf("%d KiB in use after 100 s, %d KiB after 1000 s", early>>10, late>>10)
	}
}

// heap is how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkHeld records what a drain makes of 5000 held connections: each is cut, fails to open once, and opens.
func BenchmarkHeld(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var batches []timeline.HeldBatch
	var n uint64
	for range 50 { // deliveries
		batch := timeline.HeldBatch{Source: 1, FirstSeq: n}
		for range 300 {
			at := time.Duration(60_000_000+rng.IntN(200_000)) * time.Microsecond
			batch.Changes = append(batch.Changes, timeline.HeldChange{
				Target: 3, Conn: uint32(rng.IntN(5000)), Kind: []timeline.HeldKind{timeline.HeldCut, timeline.HeldFailed, timeline.HeldOpened}[rng.IntN(3)], Class: timeline.Reset,
				From: at - time.Duration(rng.IntN(5_000_000))*time.Microsecond, Answered: at - time.Duration(rng.IntN(5_000_000))*time.Microsecond, At: at, Backend: uint16(1 + rng.IntN(3)), Peer: 1,
			})
			n++
		}
		batches = append(batches, batch)
	}
	for b.Loop() {
		w, _ := create(b)
		for _, batch := range batches {
			if err := w.Append(batch); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(w.Size())/float64(n), "bytes/change")
	}
}

// BenchmarkReadDefinitions reads a run of many targets and one of many sources, each of which is repeated as in a long
// run: ns/definition must not grow with their number.
func BenchmarkReadDefinitions(b *testing.B) {
	for _, n := range []int{1000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("targets=%d", n), func(b *testing.B) {
			benchmarkDefinitions(b, n, func(i int) timeline.Fact {
				return timeline.Target{ID: timeline.TargetID(i + 1), Name: fmt.Sprintf("web-%d new", i), Kind: timeline.New, URL: "http://10.96.0.1/", Source: 1, Service: "shop/web", Rate: 10, Timeout: time.Second}
			})
		})
		b.Run(fmt.Sprintf("sources=%d", n), func(b *testing.B) {
			benchmarkDefinitions(b, n, func(i int) timeline.Fact {
				return timeline.Source{ID: timeline.SourceID(i + 1), Name: fmt.Sprintf("prober-%d", i), Role: timeline.Prober, Node: fmt.Sprintf("node%d", i), T0: time.Unix(1767323045, 0)}
			})
		})
	}
}

func benchmarkDefinitions(b *testing.B, n int, definition func(i int) timeline.Fact) {
	path := filepath.Join(b.TempDir(), "run.lapse")
	w, err := Create(path)
	if err != nil {
		b.Fatal(err)
	}
	f := newFake(1)
	for _, fact := range []timeline.Fact{timeline.Meta{ID: "r1"}, timeline.Source{ID: 1}} {
		err = errors.Join(err, w.Append(fact))
	}
	for i := range n {
		err = errors.Join(err, w.Append(definition(i)))
	}
	for range 500 {
		err = errors.Join(err, w.Append(f.batch(1, timeline.New, time.Millisecond, 1000)), w.Flush())
	}
	if err := errors.Join(err, w.Close()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		file, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		run, err := file.Run()
		if err != nil || len(run.Targets)+len(run.Sources) < n {
			b.Fatal(len(run.Targets), len(run.Sources), err)
		}
		file.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/definition")
}
