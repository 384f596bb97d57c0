package windows

import (
	"slices"
	"time"
)

// A closingWindow takes in no more failures. Its end is known when the k-th next success is done.
type closingWindow struct {
	window
	// Done of the successes with Sent ≥ max Known, rising; if requests in flight were cut, of those with Done ≥ max
	// Known
	dones []time.Duration
	sents []time.Duration // only if requests in flight were cut: Sent of the successes with Sent ≥ max Known, rising
}

// latest returns the instant by which the window had ended: when the k-th next success was done. After a cut, k
// successes must have been sent (new requests are well) and k must be done (those in flight are well). It is not known
// while there are fewer.
func (e *closingWindow) latest() (time.Duration, bool) {
	k := e.needed.end
	switch {
	case len(e.dones) < k || e.cut != nil && len(e.sents) < k:
		return 0, false
	case e.cut != nil:
		return max(e.dones[k-1], e.sents[k-1]+MaxReorder), true
	}
	return e.dones[k-1], true
}

// lastDone returns the latest of dones.
func (e *closingWindow) lastDone() time.Duration {
	if len(e.dones) == 0 {
		return 0
	}
	return e.dones[len(e.dones)-1]
}

// confirm adds a success to those that prove the end.
func (e *closingWindow) confirm(r *Sample) {
	if r.Sent >= e.maxKnown || e.cut != nil && r.Done >= e.maxKnown {
		e.dones = insert(e.dones, r.Done, e.needed.end)
	}
	if r.Sent >= e.maxKnown && e.cut != nil {
		e.sents = insert(e.sents, r.Sent, e.needed.end)
	}
}

// insert puts an instant into a rising list of at most most.
func insert(list []time.Duration, at time.Duration, most int) []time.Duration {
	i, _ := slices.BinarySearch(list, at)
	if i >= most {
		return list
	}
	list = slices.Insert(list, i, at)
	return list[:min(len(list), most)]
}
