package causes

import (
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
)

// This file is what several rules ask of the watches: which were on, and when they brought nothing.

// laneOff reports whether this kind, in lower case ("endpointslice"), was not watched for the window's Service when
// it ended.
func (v *index) laneOff(kind string, w *model.Window) bool {
	return v.lanesAt(w.End.Latest).Off(kind, v.target(w).Service)
}

// watched is what was watched from an instant on.
type watched struct {
	from  time.Duration
	lanes model.Lanes
}

// lanesAt are the watches that were off at an instant.
func (v *index) lanesAt(at time.Duration) model.Lanes {
	for _, w := range slices.Backward(v.lanes) {
		if w.from <= at {
			return w.lanes
		}
	}
	return nil
}

// gapNear reports whether changes of this kind that concern the window's Service may have been missed about the window.
func (v *index) gapNear(kind string, w *model.Window) bool {
	for _, e := range v.gaps {
		if e.At.Overlaps(w.Span()) && model.Concerns(e.Services, v.target(w).Service) && (e.Object == nil || e.Object.Kind == "" || cluster.SameKind(e.Object.Kind, kind)) {
			return true
		}
	}
	return false
}

// gapBeside is a gap of a watch during the window, nil if there is none.
func (v *index) gapBeside(w *model.Window) *model.Event {
	for _, e := range v.gaps {
		if e.At.Overlaps(w.Span()) && model.Concerns(e.Services, v.target(w).Service) {
			return e
		}
	}
	return nil
}

// silence is the time during the window in which the API server stood still, nil if it did not.
func (v *index) silence(w *model.Window) *model.Event {
	for _, gap := range v.gaps {
		if gap.At.Overlaps(w.Span()) && strings.HasPrefix(gap.Detail, "the API server gave no sign of life") {
			return gap
		}
	}
	return nil
}
