package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// Changes is the run's events.
type Changes struct {
	*Input
	States cluster.Workloads         // how workloads were set
	About  map[string][]*model.Event // by the UID of their object, in the order in which they were seen
	Stalls []*model.Event            // of probers
	Checks []*model.Event            // of nodes' health checks
	Ends   map[string][]*model.Event // of containers, by the UID of their Pod, where they are stamped

	events  map[uint32]*model.Event // by ID
	changes []*model.Event          // what can have had an effect on traffic, by Seen
	widest  time.Duration           // of their brackets
	traffic *Traffic
}

func newChanges(s *Input, traffic *Traffic) *Changes {
	return &Changes{
		Input:   s,
		States:  cluster.ReadWorkloads(s.Run.Events),
		About:   map[string][]*model.Event{},
		events:  map[uint32]*model.Event{},
		Ends:    map[string][]*model.Event{},
		traffic: traffic,
	}
}

func (v *Changes) add(e *model.Event) {
	v.events[e.ID] = e
	if e.Object.UID != "" {
		v.About[e.Object.UID] = append(v.About[e.Object.UID], e)
	}
	switch {
	case e.Kind == timeline.PodContainer && e.To == "terminated" && !e.Stamp.IsZero() && !e.Object.IsZero():
		v.Ends[e.Object.UID] = append(v.Ends[e.Object.UID], e)
	case e.Kind == timeline.ProberStall:
		v.Stalls = append(v.Stalls, e)
	case e.Kind == timeline.NodeChecked && !e.Object.IsZero():
		v.Checks = append(v.Checks, e)
	}
	if isChange(e) && e.At.Bounded() {
		v.changes = append(v.changes, e)
		v.widest = max(v.widest, e.At.Latest-e.At.Earliest)
	}
}

// isChange reports whether the event can have affected traffic, unlike Lapse's own bookkeeping.
func isChange(e *model.Event) bool {
	switch e.Kind {
	case timeline.RunPhase, timeline.CommandOutput, timeline.TargetChanged, timeline.RateChanged, timeline.WatchLane,
		timeline.RequestError, timeline.AddressFailed, timeline.NameAnswered:
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
	if e.Kind == timeline.NodeTaint || e.Kind == timeline.NodeMarked {
		text += " (" + e.Detail + ")"
	}
	if e.Kind == timeline.EvictionRequested {
		text += " by " + e.Actor
	}
	return text
}

// Event returns the event with an ID, nil if there is none.
func (v *Changes) Event(id uint32) *model.Event { return v.events[id] }

// GivenGrace returns the grace period that a Pod was deleted with; known is false if it is not known or the Pod was not
// deleted.
func (v *Changes) GivenGrace(p *model.Pod) (grace time.Duration, known bool) {
	deleted := v.Event(v.IDOf(p, timeline.PodDeleted, p.Deleted))
	if deleted == nil || deleted.Grace == nil {
		return 0, false
	}
	return *deleted.Grace, true
}

// NodeNotReady returns the event by which the node turned not ready after the window had begun, nil if it did not.
func (v *Changes) NodeNotReady(w *model.Window, node string) *model.Event {
	for _, e := range v.changes {
		if e.Kind == timeline.NodeReady && e.Object.Name == node && e.To != "true" &&
			e.At.Latest >= w.Start.Earliest && e.At.Earliest <= w.End.Latest {
			return e
		}
	}
	return nil
}

// NodeLost returns the event by which a node was found not ready in a time, nil if there is none.
func (v *Changes) NodeLost(node string, at model.Instant) *model.Event {
	for i := range v.Run.Events {
		e := &v.Run.Events[i]
		if e.Kind == timeline.NodeReady && e.From == "true" && e.To != "true" && e.Object.Name == node &&
			e.At.Overlaps(at) {
			return e
		}
	}
	return nil
}
