package live

import (
	"math"
	"runtime/debug"
	"runtime/metrics"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A MemoryLimit is an observer that raises the runtime's soft memory limit when the live heap comes near it: a
// collector that must keep a limit takes the CPU that measuring needs. It does nothing without GOMEMLIMIT. See
// https://go.dev/doc/gc-guide#Memory_limit.
type MemoryLimit struct {
	Most int64 // bytes that this process may use in all
}

func (MemoryLimit) Fact(timeline.Fact) {}

func (MemoryLimit) Wants() Detail { return Seldom }

func (m MemoryLimit) Judged(Judgement) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // as of the last collection
	metrics.Read(sample)
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(softLimit(limit, int64(sample[0].Value.Uint64()), m.Most))
	}
}

func (MemoryLimit) Close(*model.Timeline) {}

// softLimit returns the next limit for a live heap of alive bytes: half as much again once the heap takes seven
// eighths of it, at most most.
func softLimit(limit, alive, most int64) int64 {
	for limit < most && alive > limit/8*7 {
		limit = min(limit/2*3, most)
	}
	return limit
}
