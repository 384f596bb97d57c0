package correlate

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// maxFailures is how many failures a timeline lists.
const maxFailures = 10_000

// A tally counts one target's requests. Nothing in it depends on the order they come in.
type tally struct {
	due       int // requests
	classes   [timeline.NumClasses]int
	late      int
	delayed   latencies // upper bounds of those of ok ones that have nothing better
	fresh     int       // ok ones that were the first on their connection, where connections are kept
	firstDue  time.Duration
	lastSent  time.Duration
	latencies                      // of other ok requests, from Due
	fastest   time.Duration        // of ok requests, from Sent
	failures  []timeline.Request   // the first of them by Sent, and perhaps more: see trim
	ends      [4]*timeline.Request // see edge
	named     map[string]int       // classes, as last published
	namedOf   int                  // of how many requests
}

// add adds a request that was due; kept says that its target keeps connections.
func (t *tally) add(r *timeline.Request, interval time.Duration, kept bool) {
	if t.due == 0 {
		t.firstDue = r.Due
	}
	t.due++
	t.firstDue = min(t.firstDue, r.Due)
	t.lastSent = max(t.lastSent, r.Sent)
	t.classes[min(r.Class, timeline.NumClasses-1)]++
	if r.Class.Observed() && r.Late(interval) {
		t.late++
	}
	switch {
	case r.Class == timeline.OK:
		if kept && !r.Reused {
			t.fresh++
		}
		if took := r.Done - r.Sent; t.ok() == 1 || took < t.fastest {
			t.fastest = took
		}
		if r.Delayed {
			t.delayed.add(r.Latency())
		} else {
			t.latencies.add(r.Latency())
		}
		t.mark(0, r)
	case r.Class.Failed():
		t.failures = append(t.failures, *r)
		if len(t.failures) >= 2*maxFailures {
			t.trim()
		}
		t.mark(2, r)
	}
}

// mark keeps r if it is the first (ends[i]) or last (ends[i+1]) of its outcome.
func (t *tally) mark(i int, r *timeline.Request) {
	if t.ends[i] == nil {
		t.ends[i], t.ends[i+1] = new(*r), new(*r)
		return
	}
	if bySent(r, t.ends[i]) < 0 {
		*t.ends[i] = *r
	}
	if bySent(r, t.ends[i+1]) > 0 {
		*t.ends[i+1] = *r
	}
}

func bySent(a, b *timeline.Request) int {
	if a.Sent != b.Sent {
		return cmp.Compare(a.Sent, b.Sent)
	}
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Seq, b.Seq))
}

// sortBySent sorts by Sent, then by target and Seq.
func sortBySent(requests []timeline.Request) {
	slices.SortFunc(requests, func(a, b timeline.Request) int { return bySent(&a, &b) })
}

// trim keeps the first maxFailures failures.
func (t *tally) trim() {
	sortBySent(t.failures)
	t.failures = t.failures[:min(len(t.failures), maxFailures)]
}

// edge returns copies, which later requests do not change. own are the windows of the target.
func (t *tally) edge(own []model.Window) windows.FirstLast {
	at := func(i int) *timeline.Request {
		if t.ends[i] == nil {
			return nil
		}
		return new(*t.ends[i])
	}
	e := windows.FirstLast{FirstOK: at(0), LastOK: at(1), FirstFailure: at(2), LastFailure: at(3)}
	e.Stopped = e.Stop(own)
	return e
}

// rest lets go of what is needed only while requests come.
func (t *tally) rest() {
	t.few = append([]uint32(nil), t.few...)
	t.delayed.few = append([]uint32(nil), t.delayed.few...)
}

// latency returns nil if no latency is known.
func (t *tally) latency() *model.Latency {
	known := t.quantiles()
	if known == nil || t.delayed.count() == 0 {
		return known
	}
	latency := *known
	latency.P99Bounds = new(t.p99Bounds(&t.delayed))
	return &latency
}

// classNames returns how many requests ended in each class. The map is never changed again.
func (t *tally) classNames() map[string]int {
	if t.named == nil || t.namedOf != t.due {
		t.named, t.namedOf = windows.ClassNames(&t.classes), t.due
	}
	return t.named
}

func (t *tally) notSent() int {
	return t.classes[timeline.NotSent] + t.classes[timeline.Local]
}

func (t *tally) ok() int { return t.classes[timeline.OK] }

func (t *tally) failed() int { return t.due - t.notSent() - t.ok() }
