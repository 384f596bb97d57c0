package causes

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is what several rules ask of changes: those about a time, and the event by which something is known.

// isChange reports whether the event can have had an effect on traffic, unlike our own bookkeeping.
func isChange(e *model.Event) bool {
	switch e.Kind {
	case timeline.RunPhase, timeline.CommandOutput, timeline.TargetChanged, timeline.WatchLane, timeline.RequestError, timeline.AddressFailed, timeline.NameAnswered:
		return false
	case timeline.NodeChecked:
		return e.From != ""
	case timeline.SnapshotTaken: // a status is what came of a change, and of a Service or a Pod there are events of their own
		return e.To != timeline.SnapshotFound && e.To != timeline.SnapshotStatus && e.Snapshot != nil && (e.Snapshot.Workload != nil || e.Snapshot.Budget != nil)
	}
	return true
}

// changesNear are the changes whose brackets overlap this one, without the watch gaps of other Services than the
// window's.
func (v *index) changesNear(w *model.Window, at model.Instant) []*model.Event {
	service := v.target(w).Service
	from, _ := slices.BinarySearchFunc(v.changes, at.Earliest, func(e *model.Event, t time.Duration) int { return cmp.Compare(e.Seen, t) })
	var near []*model.Event
	for _, e := range v.changes[from:] {
		if e.Seen > at.Latest+v.widest {
			break
		}
		if e.At.Overlaps(at) && model.Concerns(e.Services, service) {
			near = append(near, e)
		}
	}
	return near
}

// changeOf finds the event by which a Pod's instant is known, so that evidence can point at it.
func (v *index) changeOf(p *model.Pod, kind timeline.EventKind, at *model.Instant) uint32 {
	if at == nil {
		return 0
	}
	for _, e := range v.about[p.UID] {
		if e.Kind == kind && e.At.Latest == at.Latest {
			return e.ID
		}
	}
	return 0
}
