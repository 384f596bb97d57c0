package facts

import (
	"testing"

	"lapse/timeline"
)

// What nobody takes has a bound. Batches with failures are dropped last, and nothing else is.
func TestAQueueThatIsNotTakenHasABound(t *testing.T) {
	const n = 1000
	for name, test := range map[string]struct {
		fails func(i int) bool
		least int // failures that are left
	}{
		"some fail": {func(i int) bool { return i%20 == 0 }, n / 20},
		"all fail":  {func(int) bool { return true }, 60},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewQueue()
			q.most = 240
			for i := range n {
				r := timeline.Request{Seq: uint64(i)}
				if test.fails(i) {
					r.Class = timeline.Refused
				}
				q.Put(timeline.Batch{FirstSeq: uint64(i), Requests: []timeline.Request{r}})
				q.Put(timeline.Event{ID: uint32(i)})
			}
			batches, failures, events, last := 0, 0, 0, uint64(0)
			for _, f := range q.Take() {
				switch f := f.(type) {
				case timeline.Batch:
					if batches > 0 && f.FirstSeq <= last {
						t.Errorf("batch %d comes after %d", f.FirstSeq, last)
					}
					batches, last = batches+1, f.FirstSeq
					if f.Requests[0].Class.Failed() {
						failures++
					}
				case timeline.Event:
					events++
				}
			}
			if 2*batches > q.most || failures < test.least || events != n || last != n-1 {
				t.Errorf("%d batches, %d with failures, the last is %d, and %d events", batches, failures, last, events)
			}
			if q.Put(timeline.Batch{}); q.size != 1 {
				t.Errorf("a size of %d after all was taken", q.size)
			}
		})
	}
}
