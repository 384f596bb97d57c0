package engine

import (
	"sync"
	"time"

	"lapse/timeline"
)

// heldChanges keep the changes of all targets that were not handed on yet.
type heldChanges struct {
	mu       sync.Mutex
	list     []timeline.HeldChange
	seq      uint64                              // handed on
	promised map[timeline.TargetID]time.Duration // by target: earlier changes will not be handed on any more
}

// note takes a change in. Whoever knew of it may not have run for a while since then, and what was handed on
// meanwhile promised that no change of before comes: it is known at that instant then.
func (c *heldChanges) note(change timeline.HeldChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change.At = max(change.At, c.promised[change.Target])
	c.list = append(c.list, change)
}

// Take returns what was noted since the last call, and notes what is promised with it.
func (c *heldChanges) Take(promised []timeline.Watermark) timeline.HeldBatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.promised == nil {
		c.promised = map[timeline.TargetID]time.Duration{}
	}
	clear(c.promised)
	for _, w := range promised {
		c.promised[w.Target] = w.Due
	}
	batch := timeline.HeldBatch{FirstSeq: c.seq, Changes: c.list}
	c.seq += uint64(len(c.list))
	c.list = nil
	return batch
}
