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
// those that passed before those that show nothing. Of runs that are to be kept elsewhere as well, those that are not
// there yet outlive all others, and any age. The newest run stays, whatever it takes.
func (l Limits) Excess(runs []Kept, now time.Time) (names []string) {
	order := slices.Clone(runs)
	slices.SortStableFunc(order, func(a, b Kept) int {
		return cmp.Or(cmp.Compare(a.worth(), b.worth()), a.age(b))
	})
	newest := slices.MaxFunc(append(order, Kept{}), Kept.age)
	total, waiting := int64(0), 0
	for _, r := range runs {
		if total += r.Bytes; r.Waits {
			waiting++
		}
	}
	for i, r := range order {
		// failed runs come last, but for those that wait
		spared := r.Waits || r.Verdict == model.Fail && i >= len(order)-waiting-keptFailed
		old := l.Age > 0 && now.Sub(r.Ended) > l.Age && !spared
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
func (k Kept) worth() (n int) {
	if k.Waits {
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
