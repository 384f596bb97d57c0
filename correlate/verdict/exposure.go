package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/kubectl"
	"lapse/timeline"
)

// disruptive are the verbs of kubectl that make endpoints leave or come. A run with one of them tested nothing if no
// endpoint did.
var disruptive = []string{"drain", "rollout", "delete", "scale", "set"}

// Unproven returns why a run does not show what it was to show, however much of the time was observed: of its held
// connections, and of what its command was to disturb.
func Unproven(tl *model.Timeline) []string {
	why := append(heldDoubts(tl), untested(tl), unfinished(tl))
	return slices.DeleteFunc(why, func(text string) bool { return text == "" })
}

// untested says that the wrapped command was to disturb a measured Service and did not; "" if it did, if it was to do
// something else, or if endpoints were not watched.
func untested(tl *model.Timeline) string {
	command := tl.Run.Command
	if command == nil || command.Start == nil || tl.Run.Live {
		return ""
	}
	does, err := kubectl.Read(command.Args)
	if err != nil || !slices.Contains(disruptive, does.Verb) {
		return ""
	}
	changed, watched := exposure(tl, *command.Start, "")
	if len(changed) > 0 || !watched {
		return ""
	}
	return fmt.Sprintf("nothing was tested: no endpoint of %s left or came after `%s` began", servicesOf(tl),
		timeline.JoinCommand(command.Args)) + refusal(tl, *command.Start)
}

// refusal says which PodDisruptionBudgets allowed no eviction from an instant on, and whether the wrapped command was
// refused for one; "" if none.
func refusal(tl *model.Timeline, since time.Duration) string {
	last, open, refused := map[string]*model.Event{}, map[string]bool{}, false
	for i := range tl.Events {
		e := &tl.Events[i]
		switch {
		case e.Kind == timeline.CommandOutput:
			refused = refused || refusedByBudget(e.Detail)
		case e.Kind == timeline.SnapshotTaken && !e.Object.IsZero() && e.Snapshot != nil && e.Snapshot.Budget != nil:
			name := e.Object.Namespace + "/" + e.Object.Name
			allows := e.To == timeline.SnapshotDeleted || e.Snapshot.Budget.Allowed > 0
			last[name], open[name] = e, allows || open[name] && e.Seen >= since
		}
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(last)) {
		if b := last[name].Snapshot.Budget; !open[name] {
			text += fmt.Sprintf(
				"; PodDisruptionBudget %s allowed no eviction: of %d Pods %d were healthy, and %d must be",
				last[name].Object.Name, b.Expected, b.Healthy, b.Desired)
		}
	}
	if text != "" && refused {
		text += "; the command's evictions were refused"
	}
	return text
}

// unfinished says that the rollout of a Deployment or StatefulSet, begun after the wrapped command did, had not
// finished when the run ended: the rest of it was not measured. It returns "" if that is not known.
func unfinished(tl *model.Timeline) string {
	command := tl.Run.Command
	if command == nil || command.Start == nil || tl.Run.Live {
		return ""
	}
	last, rolled := map[string]*model.Event{}, []string{}
	for i := range tl.Events {
		e := &tl.Events[i]
		if e.Kind != timeline.SnapshotTaken || e.Object.IsZero() || e.Snapshot == nil || e.Snapshot.Workload == nil ||
			e.Object.Kind == "ReplicaSet" {
			continue
		}
		name := e.Object.Kind + " " + e.Object.Name
		if e.To == timeline.SnapshotChanged && e.Seen >= *command.Start && !slices.Contains(rolled, name) {
			rolled = append(rolled, name)
		}
		last[name] = e
	}
	for _, name := range rolled {
		w, status := last[name].Snapshot.Workload, last[name].Snapshot.Workload.Status
		switch {
		case last[name].To == timeline.SnapshotDeleted, w.RolledOut():
		case !w.Observed():
			return fmt.Sprintf("the rollout of %s had not finished when the run ended: its status was that of the "+
				"spec before", name)
		default:
			return fmt.Sprintf("the rollout of %s had not finished when the run ended: of %d Pods %d were of the "+
				"newest template, %d available, %d there", name, w.Replicas, status.Updated, status.Available,
				status.Existing)
		}
	}
	return ""
}

// exposure returns the changes since an instant by which an endpoint of a Service turned ready, or was no longer, and
// whether every such change was seen. The Service is NAMESPACE/NAME, or "" for all of the run.
func exposure(tl *model.Timeline, begin time.Duration, service string) (changed []*model.Event, watched bool) {
	lanes, missed := model.Lanes{}, false
	for i := range tl.Events {
		e := &tl.Events[i]
		lanes.Learn(e)
		switch since := e.Seen >= begin; e.Kind {
		case timeline.WatchGap:
			missed = missed || since && (e.Object.Kind == "" ||
				cluster.SameKind(e.Object.Kind, "endpointslice")) && model.Concerns(e.Services, service)
		case timeline.EndpointChanged:
			if service != "" && e.Service != service {
				continue
			}
			watched = true
			if since && e.At.Bounded() && cluster.IsReady(e.From) != cluster.IsReady(e.To) {
				changed = append(changed, e)
			}
		}
	}
	return changed, watched && !missed && !lanes.Off("endpointslice", service)
}

// mostNamed is how many Services are named; more are counted.
const mostNamed = 6

func servicesOf(tl *model.Timeline) string {
	var names []string
	for _, t := range tl.Targets {
		if t.Kind.Judged() && t.Service != "" && !slices.Contains(names, t.Service) {
			names = append(names, t.Service)
		}
	}
	switch {
	case len(names) == 0:
		return "the watched Service"
	case len(names) > mostNamed:
		return quantity.Count(len(names), "Service")
	}
	return strings.Join(names, ", ")
}
