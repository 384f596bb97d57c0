package record

import (
	"path/filepath"
	"testing"
	"time"

	"lapse/timeline"
)

// seconds is n seconds of one target at 2000 requests per second, in batches of 100 ms.
func seconds(n int, kind timeline.TargetKind) [][]timeline.Fact {
	f := newFake(1)
	all := make([][]timeline.Fact, n)
	for i := range all {
		for range 10 {
			all[i] = append(all[i], f.batch(1, kind, 500*time.Microsecond, 200))
		}
	}
	return all
}

// BenchmarkWrite records at 2000 requests per second, one block per second, as in a run. Lateness is
// drawn around 30 µs and time to answer around 110 µs with a spread of a quarter, as on a quiet loopback.
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
	requests := float64(len(run) * 2000)
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
