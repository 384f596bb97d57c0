package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// isChange reports whether the event can have affected traffic, unlike Lapse's own bookkeeping.
func isChange(e *model.Event) bool {
	switch e.Kind {
	case timeline.RunPhase, timeline.CommandOutput, timeline.TargetChanged, timeline.WatchLane, timeline.RequestError,
		timeline.AddressFailed, timeline.NameAnswered:
		return false
	case timeline.NodeChecked:
		return e.From != ""
	// a status is what came of a change, and of a Service or a Pod there are events of their own
	case timeline.SnapshotTaken:
		return e.To != timeline.SnapshotFound && e.To != timeline.SnapshotStatus && e.Snapshot != nil &&
			(e.Snapshot.Workload != nil || e.Snapshot.Budget != nil)
	}
	return true
}

// Near returns the changes whose brackets overlap this one, without the watch gaps of other Services than the
// window's.
func (v *Changes) Near(w *model.Window, at model.Instant) []*model.Event {
	service := v.traffic.Target(w).Service
	from, _ := slices.BinarySearchFunc(v.changes, at.Earliest, func(e *model.Event, t time.Duration) int {
		return cmp.Compare(e.Seen, t)
	})
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

// IDOf returns the ID of the event that shows a Pod's instant, for evidence to point at; 0 if there is none.
func (v *Changes) IDOf(p *model.Pod, kind timeline.EventKind, at *model.Instant) uint32 {
	if at == nil {
		return 0
	}
	for _, e := range v.About[p.UID] {
		if e.Kind == kind && e.At.Latest == at.Latest {
			return e.ID
		}
	}
	return 0
}

// Describe says in a few words what an event was.
func Describe(e *model.Event) string {
	if e.Kind == timeline.SnapshotTaken && !e.Object.IsZero() {
		return fmt.Sprintf("%s %s %s (%s)", e.Object.Kind, e.Object.Name, e.To, e.Detail)
	}
	text := string(e.Kind)
	if e.Object.Name != "" {
		text += " " + e.Object.Name
	}
	switch {
	case e.From != "" && e.To != "":
		text += " " + e.From + " → " + e.To
	case e.To != "":
		text += " " + e.To
	}
	if e.Kind == timeline.NodeTaint {
		text += " (" + e.Detail + ")"
	}
	return text
}

// Event returns the event with an ID, nil if there is none.
func (v *Changes) Event(id uint32) *model.Event { return v.events[id] }
