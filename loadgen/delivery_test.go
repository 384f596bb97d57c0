package loadgen

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lapse/loadgen/internal/engine"
	"lapse/timeline"
)

// What is asked seldom is handed on as seldom, but a request that failed is at once. Others are never older than the
// interval.
func TestFewRequestsAreHandedOnSeldomAndFailuresAtOnce(t *testing.T) {
	for _, test := range []struct {
		rate     float64
		answered timeline.Class
		batches  int           // in ten seconds, with one request after 2.11 s
		after    time.Duration // that request
	}{
		{0.05, timeline.OK, 10, 940 * ms},
		{0.05, timeline.Refused, 11, 0},
		{2, timeline.Refused, 21, 0},
		{10, timeline.OK, 100, 40 * ms},
		{10, timeline.Refused, 100, 0},
		{100, timeline.Refused, 200, 40 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			batches, after := 0, time.Duration(-1)
			p := New(Config{Clock: timeline.StartClock(), Sink: func(f timeline.Fact) {
				batches++
				if len(f.(timeline.Batch).Requests) > 0 {
					after = time.Since(began) - 2110*ms
				}
			}})
			if err := p.Start(probe(1, timeline.New, "http://web/", test.rate)); err != nil {
				t.Fatal(err)
			}
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() { p.deliverUntil(stop); close(stopped) }()
			time.Sleep(2110 * ms) // of virtual time
			of := slices.Collect(p.all())[0]
			of.Inflight.Opened(0, 0, time.Hour)
			of.Refuse(engine.Job{}, test.answered)
			time.Sleep(7890 * ms)
			close(stop)
			<-stopped
			if batches--; after != test.after || batches < test.batches-1 || batches > test.batches+1 {
				t.Errorf("%v/s, %s: handed on after %v, in %d batches; want %v, %d", test.rate, test.answered, after, batches, test.after, test.batches)
			}
		})
	}
}
