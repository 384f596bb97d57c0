package record

import (
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
