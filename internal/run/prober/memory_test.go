package prober

import (
	"runtime"
	"testing"

	"lapse/internal/run/runtest"
	"lapse/timeline"
)

// BenchmarkIdleGuard reports what a guard's session of 50 Services takes, each asked 5 times per second in all by 3
// targets: memory while its recording is full, and bytes of the recording per second.
func BenchmarkIdleGuard(b *testing.B) {
	p, shop := newProber(b), newShop(b)
	guard := serve(b, p)("guard-1")
	join(b, guard)
	before := inUse()
	for of := range timeline.SourceID(50) {
		if err := guard.Assign(b.Context(), assignment(of+1, 5./3, shop.URL+"/1", shop.URL+"/2", shop.URL+"/3")); err != nil {
			b.Fatal(err)
		}
	}
	session, told := sessionOf(p, "guard-1"), follow(b, guard)
	size, began := session.rec.Size(), session.Now()
	for b.Loop() {
		now := session.Now()
		runtest.WaitFor(b, "10 seconds of requests", func() bool { return session.Now()-now > 10e9 })
	}
	seconds := (session.Now() - began).Seconds()
	written := float64(session.rec.Size()-size) / seconds
	b.ReportMetric((inUse()-before)/(1<<20), "MiB")
	b.ReportMetric(written, "B/s")
	b.ReportMetric(written*keepFor.Seconds()/(1<<20), "MiB-kept")
	b.ReportMetric(float64(shop.count("/1")+shop.count("/2")+shop.count("/3"))/seconds, "requests/s")
	if told.count(1) == 0 {
		b.Error("nothing was told")
	}
}

// inUse returns the bytes that the heap and the stacks have in use.
func inUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}
