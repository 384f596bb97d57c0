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

func (m MemoryLimit) Judged(Judgement) { RaiseMemoryLimit(m.Most) }

func (MemoryLimit) Close(*model.Timeline) {}

// RaiseMemoryLimit does so once, up to most bytes.
func RaiseMemoryLimit(most int64) {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return
	}
	sample := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, // as of the last collection
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(sample)
	of := func(i int) int64 { return int64(sample[i].Value.Uint64()) }
	beside := of(1) - of(2) - of(3) - of(4) - of(5) // stacks and what the runtime needs, which count as well
	if next := softLimit(limit, of(0)+beside, most); next != limit {
		debug.SetMemoryLimit(next)
	}
}

// softLimit returns the next limit while alive bytes are needed: half as much again once they take seven eighths of it,
// at most most.
func softLimit(limit, alive, most int64) int64 {
	for limit < most && alive > limit/8*7 {
		limit = min(limit/2*3, most)
	}
	return limit
}
