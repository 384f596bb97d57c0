package model

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// MadeWhenAsked returns buckets that keep no series. The series of all targets of a long run take more memory than
// the rest of its timeline, so each is made when somebody asks for it: by series. What encodes a Timeline as it is
// leaves them out: see [Buckets.Kept].
func MadeWhenAsked(width time.Duration, targets []string, series func(target string) BucketSeries) Buckets {
	return Buckets{Width: width, Making: &SeriesMaking{slices.Sorted(slices.Values(targets)), series}}
}

// A SeriesMaking makes series when they are asked for.
type SeriesMaking struct {
	targets []string // sorted
	series  func(target string) BucketSeries
}

// Of returns a target's series; false if it has none.
func (b Buckets) Of(target string) (BucketSeries, bool) {
	if b.Making == nil {
		s, ok := b.Targets[target]
		return s, ok
	}
	if _, ok := slices.BinarySearch(b.Making.targets, target); !ok {
		return BucketSeries{}, false
	}
	return b.Making.series(target), true
}

// All yields the series of all targets, by name.
func (b Buckets) All() iter.Seq2[string, BucketSeries] {
	return func(yield func(string, BucketSeries) bool) {
		for _, name := range b.Names() {
			if s, _ := b.Of(name); !yield(name, s) {
				return
			}
		}
	}
}

// Len returns how many targets have a series.
func (b Buckets) Len() int {
	if b.Making == nil {
		return len(b.Targets)
	}
	return len(b.Making.targets)
}

// Names returns the targets that have a series, sorted.
func (b Buckets) Names() []string {
	if b.Making == nil {
		return slices.Sorted(maps.Keys(b.Targets))
	}
	return b.Making.targets
}

// Kept returns the same buckets with all their Targets.
func (b Buckets) Kept() Buckets {
	if b.Making == nil {
		return b
	}
	return Buckets{Width: b.Width, Targets: maps.Collect(b.All())}
}

// Halve returns the same counts in half as many slots, each twice as wide, for a reader to whom the
// series are too long. Nothing is lost but resolution; b is not changed.
func (b Buckets) Halve() Buckets {
	halved := Buckets{Width: 2 * b.Width, Targets: map[string]BucketSeries{}}
	for name, s := range b.All() {
		halved.Targets[name] = s.halve()
	}
	return halved
}

func (s BucketSeries) halve() BucketSeries {
	if s.Start%2 == 1 { // pairs begin at even slots
		s.Start--
		s.Sent, s.Failed = padded(1, s.Sent), padded(1, s.Failed)
		s.Unobserved, s.Latency = padded(1, s.Unobserved), padded(1, s.Latency)
	}
	h := BucketSeries{
		Start:      s.Start / 2,
		Sent:       inPairs(s.Sent, func(a, b int) int { return a + b }),
		Failed:     inPairs(s.Failed, func(a, b int) int { return a + b }),
		Unobserved: inPairs(s.Unobserved, func(a, b float64) float64 { return a + b }),
		Latency:    inPairs(s.Latency, Histogram.Plus),
	}
	for i := range h.Unobserved {
		// The last slot may stand alone: all of the run that is in it is in its first half.
		if 2*i+1 < len(s.Unobserved) {
			h.Unobserved[i] /= 2
		}
	}
	if s.Classes != nil {
		h.Classes = map[string]SparseCounts{}
	}
	for class, counts := range s.Classes {
		h.Classes[class] = halveSlots(counts)
	}
	return h
}

// inPairs adds up neighbours; the last may have none.
func inPairs[T any](list []T, add func(T, T) T) []T {
	pairs := make([]T, 0, (len(list)+1)/2)
	for i := 0; i < len(list); i += 2 {
		sum := list[i]
		if i+1 < len(list) {
			sum = add(sum, list[i+1])
		}
		pairs = append(pairs, sum)
	}
	return pairs
}

// halveSlots moves counts to slots twice as wide.
func halveSlots(counts SparseCounts) SparseCounts {
	halved := SparseCounts{}
	for i := 0; i+1 < len(counts); i += 2 {
		slot, n := counts[i]/2, counts[i+1]
		if last := len(halved) - 2; last >= 0 && halved[last] == slot {
			halved[last+1] += n
			continue
		}
		halved = append(halved, slot, n)
	}
	return halved
}

// Whole returns the series from slot 0 on.
func (s BucketSeries) Whole() BucketSeries {
	if s.Start == 0 {
		return s
	}
	return BucketSeries{
		Sent: padded(s.Start, s.Sent), Failed: padded(s.Start, s.Failed), Unobserved: padded(s.Start, s.Unobserved),
		Latency: padded(s.Start, s.Latency),
		Classes: s.Classes,
	}
}

func padded[T any](by int, list []T) []T { return append(make([]T, by, by+len(list)), list...) }

// Measured returns the series without the slots before the first, and after the last, in which something was sent, or
// not observed.
func (s BucketSeries) Measured() BucketSeries {
	empty := func(i int) bool { return s.Sent[i] == 0 && s.Unobserved[i] == 0 }
	from, to := 0, len(s.Sent)
	for to > 0 && empty(to-1) {
		to--
	}
	for from < to && empty(from) {
		from++
	}
	return BucketSeries{
		Start: s.Start + from, Classes: s.Classes,
		Sent: slices.Clone(s.Sent[from:to]), Failed: slices.Clone(s.Failed[from:to]),
		Unobserved: slices.Clone(s.Unobserved[from:to]), Latency: slices.Clone(s.Latency[from:to]),
	}
}
