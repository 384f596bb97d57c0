package evidence

import (
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
)

// This file is about the watches: which were on, and when they had gaps.

// Watches is what was watched, and when a watch brought nothing.
type Watches struct {
	lanes   []watched
	gaps    []*model.Event
	traffic *Traffic
}

// LaneOff reports whether this kind, in lower case ("endpointslice"), was not watched for the window's Service when
// it ended.
func (v *Watches) LaneOff(kind string, w *model.Window) bool {
	return v.lanesAt(w.End.Latest).Off(kind, v.traffic.Target(w).Service)
}

// watched says which watches were on from an instant on.
type watched struct {
	from  time.Duration
	lanes model.Lanes
}

// lanesAt returns the watches that were off at an instant.
func (v *Watches) lanesAt(at time.Duration) model.Lanes {
	for _, w := range slices.Backward(v.lanes) {
		if w.from <= at {
			return w.lanes
		}
	}
	return nil
}

// GapNear reports whether changes of this kind that concern the window's Service may have been missed about the window.
func (v *Watches) GapNear(kind string, w *model.Window) bool {
	for _, e := range v.gaps {
		if e.At.Overlaps(w.Span()) && model.Concerns(e.Services, v.traffic.Target(w).Service) &&
			(e.Object.Kind == "" || cluster.SameKind(e.Object.Kind, kind)) {
			return true
		}
	}
	return false
}

// Silence returns the gap during the window in which the API server stood still, nil if it did not.
func (v *Watches) Silence(w *model.Window) *model.Event {
	for _, gap := range v.gaps {
		if gap.At.Overlaps(w.Span()) && isSilence(gap) {
			return gap
		}
	}
	return nil
}

// SilenceBeside returns the gap in which the API server gave the window's source no sign of life, if it is most of the
// window; else nil. A watch that breaks and is resumed, or a short silence, does not show that the source was cut off.
func (v *Watches) SilenceBeside(w *model.Window) *model.Event {
	own, span := v.traffic.Target(w), w.Span()
	for _, gap := range v.gaps {
		if isSilence(gap) && (gap.Source == "" || gap.Source == own.Source) &&
			2*common(gap.At, span) > span.Latest-span.Earliest {
			return gap
		}
	}
	return nil
}

func isSilence(gap *model.Event) bool {
	return strings.HasPrefix(gap.Detail, "the API server gave no sign of life")
}
