package incidents

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"lapse/correlate/model"
)

// setFailed says of each window and each incident when its first and its last request failed. Where not all failures
// of a window are listed, its brackets say what the list does not.
func setFailed(list []model.Incident, tl *model.Timeline) {
	windows := map[int]*model.Window{}
	for i := range tl.Windows {
		windows[tl.Windows[i].ID] = &tl.Windows[i]
	}
	failures := map[string][]model.Failure{} // by target, by due
	for _, f := range tl.Failures {
		failures[f.Target] = append(failures[f.Target], f)
	}
	for _, of := range failures {
		slices.SortFunc(of, func(a, b model.Failure) int { return cmp.Compare(a.Due, b.Due) })
	}
	for i := range list {
		in := &list[i]
		began := setOff(in)
		for _, id := range in.Windows {
			w := windows[id] // nil: of held connections
			if w == nil || w.Failed == 0 {
				continue
			}
			at := failedIn(w, failures[w.Target], began)
			w.FailedFrom, w.FailedTo = new(slices.Min(at)), new(slices.Max(at))
			if in.FailedFrom == nil || *w.FailedFrom < *in.FailedFrom {
				in.FailedFrom = w.FailedFrom
			}
			if in.FailedTo == nil || *w.FailedTo > *in.FailedTo {
				in.FailedTo = w.FailedTo
			}
		}
	}
}

// setOff returns the earliest instant at which something can have set the incident off.
func setOff(in *model.Incident) time.Duration {
	began := model.Unbounded
	for i, t := range in.Triggers {
		if i == 0 || t.At.Earliest < began {
			began = t.At.Earliest
		}
	}
	return began
}

// failedIn returns when requests failed that are listed of a window, and when the others did that are not. A request
// that was under way when the incident was set off failed after that.
func failedIn(w *model.Window, failures []model.Failure, began time.Duration) []time.Duration {
	from := sort.Search(len(failures), func(i int) bool { return failures[i].Due >= w.Start.Earliest })
	var at []time.Duration
	for _, f := range failures[from:] {
		if f.Due > w.End.Latest {
			break
		}
		if f.Due < began {
			at = append(at, f.Done)
		} else {
			at = append(at, f.Due)
		}
	}
	if len(at) < w.Failed {
		at = append(at, w.Start.Latest, max(w.Start.Latest, w.End.Earliest))
	}
	return at
}
