package record

import (
	"cmp"
	"reflect"

	"lapse/timeline"
)

// An order checks that blocks follow each other as one writer wrote them, about one run. Each source numbers its
// requests and its held changes, and the run its events. A number that comes again, or too late, is in a block that
// was copied, moved, or written by another process: its requests must not count twice.
type order struct {
	meta  *timeline.Meta    // of the run; nil: not read yet
	other bool              // the last description of a run was that of another one
	next  map[series]uint64 // the number that comes next, at least
}

// A series has numbers of its own.
type series struct {
	kind   byte // batchFact, heldFact, eventFact
	source timeline.SourceID
}

// Why a block does not follow on those before.
const (
	ofOtherRun = "they belong to another run"
	isRestated = "they describe the run a second time"
	isRepeated = "they repeat what was recorded before, or are out of order"
)

// admit takes a block's facts. It returns how many requests are missing before them, or why the block does not follow
// on the blocks before; then no fact of it counts.
func (o *order) admit(facts []timeline.Fact) (missed uint64, why string) {
	if why := o.describes(facts); why != "" {
		return 0, why
	}
	next := map[series]uint64{}
	for _, fact := range facts {
		in, first, n := numbers(fact)
		if n == 0 {
			continue
		}
		expected, seen := next[in]
		if !seen {
			expected = o.next[in]
		}
		if first < expected || first+n < first {
			return 0, isRepeated
		}
		if in.kind == batchFact {
			missed += first - expected
		}
		next[in] = first + n
	}
	if o.next == nil {
		o.next = map[series]uint64{}
	}
	for in, n := range next {
		o.next[in] = n
	}
	return missed, ""
}

// follows takes the facts of a block, and returns an error if it does not follow on the blocks before.
func (o *order) follows(facts []timeline.Fact) error {
	if _, why := o.admit(facts); why != "" {
		return corrupt("facts come that are left out: %s", why)
	}
	return nil
}

// describes compares the run's description in a block with the known one. It returns why the block does not count, or
// "".
func (o *order) describes(facts []timeline.Fact) (why string) {
	for _, fact := range facts {
		again, isRepeat := fact.(repeat)
		if isRepeat {
			fact = again.Fact
		}
		meta, ok := fact.(timeline.Meta)
		switch {
		case !ok:
		case o.meta == nil:
			o.meta = &meta
		case meta.ID != o.meta.ID:
			o.other = true
			return ofOtherRun
		case !isRepeat || !reflect.DeepEqual(meta, *o.meta):
			o.other = false
			why = cmp.Or(why, isRestated)
		default:
			o.other = false
		}
	}
	if o.other {
		return ofOtherRun
	}
	return why
}

// numbers returns which numbers a fact has: n of a series, from first on. Facts without a number have n 0.
func numbers(fact timeline.Fact) (in series, first, n uint64) {
	switch f := fact.(type) {
	case headOnly:
		return series{batchFact, f.Source}, f.FirstSeq, f.size
	case timeline.Batch:
		return series{batchFact, f.Source}, f.FirstSeq, uint64(len(f.Requests))
	case timeline.HeldBatch:
		return series{heldFact, f.Source}, f.FirstSeq, uint64(len(f.Changes))
	case timeline.Event:
		if f.ID > 0 {
			return series{eventFact, f.Source}, uint64(f.ID), 1
		}
	}
	return series{}, 0, 0
}
