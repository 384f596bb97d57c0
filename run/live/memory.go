package live

import (
	"math"
	"runtime/debug"
	"runtime/metrics"

	"lapse/correlate/model"
	"lapse/deploy"
	"lapse/timeline"
)

// A MemoryLimit is an observer that raises the runtime's soft memory limit when what is alive comes near it: a
// collector that has to keep to a limit takes the CPU that measuring needs. It does nothing where GOMEMLIMIT is not
// set. See https://go.dev/doc/gc-guide#Memory_limit.
type MemoryLimit struct{}

func (MemoryLimit) Fact(timeline.Fact) {}

func (MemoryLimit) Wants() Detail { return Seldom }

func (MemoryLimit) Judged(Judgement) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // as of the last collection
	metrics.Read(sample)
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(softLimit(limit, int64(sample[0].Value.Uint64())))
	}
}

func (MemoryLimit) Close(*model.Timeline) {}

// softLimit is what a limit becomes when so many bytes are alive: half as much again once they take seven eighths of
// it, and never more than the container leaves room for.
func softLimit(limit, alive int64) int64 {
	for limit < deploy.MostMemory && alive > limit/8*7 {
		limit = min(limit/2*3, deploy.MostMemory)
	}
	return limit
}
