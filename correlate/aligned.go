package correlate

import (
	"maps"
	"slices"
	"time"

	"lapse/correlate/align"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// An aligned places a target's judgement on the run's clock.
type aligned struct {
	clocks *align.Clocks
	source timeline.SourceID
	shared bool // the source has the run's clock
	jumps  []align.Jump
}

// An alignedBy caches alignments. It is valid for this number of clock comparisons and sources.
type alignedBy struct {
	syncs, sources int
	of             map[timeline.SourceID]aligned
}

func (f *sourceFacts) aligned(source timeline.SourceID) aligned {
	if k := &f.alignments; k.of == nil || k.syncs != f.clocks.Len() || k.sources != len(f.sources) {
		*k = alignedBy{f.clocks.Len(), len(f.sources), map[timeline.SourceID]aligned{}}
	}
	a, known := f.alignments.of[source]
	if known {
		return a
	}
	a = aligned{clocks: &f.clocks, source: source, shared: f.clocks.Shared(source)}
	if sum, known := f.clocks.Summary(source); known {
		a.jumps = sum.Jumps
	}
	f.alignments.of[source] = a
	return a
}

func (a aligned) at(instant time.Duration) model.Instant { return a.clocks.At(a.source, instant) }

// bracket returns a bracket of the source's clock on the run's.
func (a aligned) bracket(i model.Instant) model.Instant {
	if a.shared {
		return i
	}
	return model.Instant{Earliest: a.at(i.Earliest).Earliest, Latest: a.at(i.Latest).Latest}
}

// missed returns how much the run's clock can have gone ahead in jumps between two instants: the source did not run
// meanwhile.
func (a aligned) missed(from, to time.Duration) time.Duration {
	missed := time.Duration(0)
	for _, jump := range a.jumps {
		if jump.From < to && from < jump.To {
			missed += jump.Most
		}
	}
	return missed
}

// windows places windows. A length of the source's clock is one of the run's but for drift, and what a jump hid.
func (a aligned) windows(list []model.Window) []model.Window {
	if a.shared {
		return list
	}
	for i := range list {
		w := &list[i]
		missed := a.missed(w.Start.Earliest, w.End.Latest)
		w.Start, w.End = a.bracket(w.Start), a.bracket(w.End)
		w.Start.Latest = min(w.Start.Latest, w.End.Latest)
		w.End.Earliest = max(w.End.Earliest, w.Start.Earliest)
		w.Length, w.Downtime = drifted(w.Length, missed), drifted(w.Downtime, missed)
		if w.Blackout != nil {
			w.Blackout = new(drifted(*w.Blackout, missed))
		}
		if w.Cut != nil {
			w.Cut = new(a.bracket(*w.Cut))
		}
		if w.Most != nil {
			w.Most = &model.Most{Length: drifted(model.Length{Max: w.Most.Length}, missed).Max,
				Downtime: drifted(model.Length{Max: w.Most.Downtime}, missed).Max}
		}
	}
	return list
}

// drifted returns a length by another clock.
func drifted(l model.Length, missed time.Duration) model.Length {
	return model.Length{
		Min: max(0, l.Min-time.Duration(align.Drift*float64(l.Min))-1),
		Max: l.Max + time.Duration(align.Drift*float64(l.Max)) + 1 + missed,
	}
}

// periods places periods, each as wide as it can have been, and joins those that then overlap.
func (a aligned) periods(list []windows.Period) []windows.Period {
	if a.shared {
		return list
	}
	list = slices.Clone(list)
	for _, jump := range a.jumps {
		list = append(list, windows.Period{From: jump.From, To: jump.To, Reason: model.ReasonJumped})
	}
	placed := make([]windows.Period, 0, len(list))
	for _, p := range list {
		placed = append(placed, windows.Period{From: max(0, a.at(p.From).Earliest), To: a.at(p.To).Latest,
			Reason: p.Reason})
	}
	return windows.Merge(placed)
}

// firstLast places what bounds a Pod's answers: it had answered by Done, and still did at Sent; its first failure was
// sent by Sent.
func (a aligned) firstLast(f windows.FirstLast) windows.FirstLast {
	if a.shared {
		return f
	}
	for _, r := range []*timeline.Request{f.FirstOK, f.LastOK, f.FirstFailure, f.LastFailure} {
		if r != nil {
			sent := a.at(r.Sent)
			r.Sent, r.Done = sent.Earliest, a.at(r.Done).Latest
			if r == f.FirstFailure {
				r.Sent = sent.Latest
			}
		}
	}
	if f.Stopped != nil {
		f.Stopped = new(a.bracket(*f.Stopped))
	}
	return f
}

// unwell places the requests to a control target that failed or were late.
func (a aligned) unwell(r *windows.Reading) (placed []model.Instant) {
	for _, p := range slices.Concat(r.Faults, r.Stalls, r.Stopped) {
		placed = append(placed, a.bracket(model.Instant{Earliest: p.From, Latest: p.To}))
	}
	return placed
}

func (a aligned) streaks(s *windows.Streaks) *windows.Streaks {
	if a.shared {
		return s
	}
	return s.Placed(a.at)
}

func (a aligned) intervals(s *windows.Intervals) *windows.Intervals {
	if a.shared {
		return s
	}
	return s.Placed(a.at)
}

// failure places a failed request in the middle of what its clock allows.
func (a aligned) failure(f model.Failure) model.Failure {
	p := a.clocks.Place(a.source, f.Due, f.Sent, f.Done)
	f.Due, f.Sent, f.Done, f.Error = p.Due, p.Sent, p.Done, max(f.Error, p.Error)
	return f
}

// series places slots, each by its middle. Where two clocks drift apart, two slots may come to lie in one, and one
// becomes two.
func (a aligned) series(s model.BucketSeries, width time.Duration) model.BucketSeries {
	if a.shared {
		return s
	}
	placed := model.BucketSeries{
		Sent: make([]int, len(s.Sent)), Failed: make([]int, len(s.Sent)), Unobserved: make([]float64, len(s.Sent)),
		Latency: make([]model.Histogram, len(s.Sent)),
	}
	to := make([]int, len(s.Sent)) // where each slot lies
	for i := range s.Sent {
		at := a.at(time.Duration(i)*width + width/2)
		to[i] = min(max(int((at.Earliest+(at.Latest-at.Earliest)/2)/width), 0), max(0, len(s.Sent)-1))
		j := to[i]
		sent, failed := s.Sent[i], s.Failed[i]
		if i > 0 && j == to[i-1]+2 { // half of it lies in the slot between
			placed.Sent[j-1], placed.Failed[j-1] = sent/2, failed/2
			sent, failed = sent-sent/2, failed-failed/2
		}
		placed.Sent[j] += sent
		placed.Failed[j] += failed
		placed.Latency[j] = placed.Latency[j].Plus(s.Latency[i])
	}
	for class, pairs := range s.Classes {
		if placed.Classes == nil {
			placed.Classes = map[string]model.SparseCounts{}
		}
		placed.Classes[class] = placedPairs(pairs, to)
	}
	return placed
}

// placedPairs returns counts by slot where the slots lie elsewhere.
func placedPairs(pairs model.SparseCounts, to []int) model.SparseCounts {
	counts := map[int]int{}
	for i := 0; i+1 < len(pairs); i += 2 {
		counts[to[pairs[i]]] += pairs[i+1]
	}
	var placed model.SparseCounts
	for _, slot := range slices.Sorted(maps.Keys(counts)) {
		placed = append(placed, slot, counts[slot])
	}
	return placed
}
