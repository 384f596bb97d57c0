package store

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/internal/history"
)

// Limits say how many runs are kept.
type Limits struct {
	Bytes int64         // of all runs together, with their history; 0: no limit, but of the history
	Age   time.Duration // of a run; 0: no limit
}

// keptFailed is how many of the newest failed runs are kept whatever their age.
const keptFailed = 10

// A Kept is a run on disk.
type Kept struct {
	Name    string // of its directory
	Ended   time.Time
	Bytes   int64
	Verdict model.Result // empty: it was not judged
	Waits   bool         // it is to be kept elsewhere, and is not yet

	line history.Line // its zero value: it was not judged
}

// Excess returns the names of the runs to delete. A failed run outlives any number of others: these are deleted first,
// those that passed before those that show nothing. The newest run of a Service, which the gate answers for, outlives
// those, and any age; so do, before all others, those that are to be kept elsewhere as well and are not there yet. The
// newest run of all stays, whatever it takes.
func (l Limits) Excess(runs []Kept, now time.Time) (names []string) {
	newest := slices.MaxFunc(append(slices.Clone(runs), Kept{}), Kept.age)
	last, total := map[string]Kept{}, int64(0) // by Service
	for _, r := range runs {
		if total += r.Bytes; r.line.Service != "" && last[r.line.Service].age(r) < 0 {
			last[r.line.Service] = r
		}
	}
	spared := func(r Kept) bool { return r.Waits || last[r.line.Service].Name == r.Name }
	order := slices.Clone(runs)
	slices.SortStableFunc(order, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.worth(spared(a)), b.worth(spared(b))), a.age(b))
	})
	failed := 0 // that are spared for nothing else, and are still to come
	for _, r := range order {
		if r.Verdict == model.Fail && !spared(r) {
			failed++
		}
	}
	for _, r := range order {
		old := l.Age > 0 && now.Sub(r.Ended) > l.Age && !spared(r)
		if r.Verdict == model.Fail && !spared(r) {
			old = old && failed > keptFailed
			failed--
		}
		if r.Name != newest.Name && (old || l.Bytes > 0 && total > l.Bytes) {
			names = append(names, r.Name)
			total -= r.Bytes
		}
	}
	return names
}

// age orders runs by when they ended. Runs of one instant are ordered by their names, which begin with the time.
func (k Kept) age(other Kept) int {
	return cmp.Or(k.Ended.Compare(other.Ended), cmp.Compare(k.Name, other.Name))
}

// worth orders runs by how long they are kept.
func (k Kept) worth(spared bool) (n int) {
	switch {
	case k.Waits:
		n = 6
	case spared:
		n = 3
	}
	switch k.Verdict {
	case model.Pass, model.Ungated:
		return n
	case model.Fail:
		return n + 2
	}
	return n + 1
}
