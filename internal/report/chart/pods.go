package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// maxPods is how many Pods' lanes are drawn at most.
const maxPods = 12

// podRows are a Pod's lane and, if its own address failed while it was measured, what that showed.
func (c *chart) podRows(pod model.Pod, label string) []row {
	rows := []row{{label, c.lane(pod)}}
	for _, t := range c.tl.Targets {
		if t.Kind != timeline.Direct || t.PodUID != pod.UID || t.Failed == 0 {
			continue
		}
		if series, ok := c.tl.Buckets.Of(t.Name); ok {
			rows = append(rows, row{c.directLabel(t), c.strip(
				t, series.Whole(), c.column(t.Measured.Earliest), c.column(t.Measured.Latest),
			)})
		}
	}
	return rows
}

// directLabel names a target at a Pod's own address below the Pod's row; with its port where the Pod has several such
// targets.
func (c *chart) directLabel(t model.Target) string {
	label := "  direct"
	direct := 0
	for _, o := range c.tl.Targets {
		if o.Kind == timeline.Direct && o.PodUID == t.PodUID {
			direct++
		}
	}
	if direct > 1 && t.Addr.IsValid() {
		label += fmt.Sprintf(" :%d", t.Addr.Port())
	}
	return label
}

// lane draws a Pod's states, and where a container of it exited while it was not to end.
func (c *chart) lane(pod model.Pod) []document.Span {
	states := pod.States
	if i := len(states) - 1; i >= 0 && states[i].State == "gone" && c.isUnselected(pod) {
		states = slices.Clone(states)
		states[i].State = unselected
	}
	cells := slices.Repeat([]document.Span{{Text: " "}}, c.cells)
	ranks := make([]int, c.cells)
	for i, s := range states {
		lane, ok := lanes[s.State]
		if !ok || s.Start >= c.to || i+1 < len(states) && states[i+1].Start <= c.from {
			continue
		}
		end := c.cells - 1
		if i+1 < len(states) {
			end = c.column(max(states[i+1].Start-1, s.Start))
		}
		for column := c.column(s.Start); column <= end; column++ {
			if lane.rank > ranks[column] {
				ranks[column], cells[column] = lane.rank, document.Span{Text: lane.glyph, Style: lane.style}
			}
		}
	}
	for _, exit := range c.exits {
		if exit.uid == pod.UID && !exit.ending && exit.at >= c.from && exit.at < c.to {
			column := c.column(exit.at)
			ranks[column], cells[column] = lanes["crashed"].rank, document.Span{
				Text: lanes["crashed"].glyph, Style: lanes["crashed"].style,
			}
		}
	}
	for column, cell := range cells {
		if ranks[column] > 0 && c.unwatched("Pod", column, c.of[pod.UID], pod.Namespace) {
			cells[column] = c.glyph("none")
			continue
		}
		c.used[cell.Text] = true
	}
	return merge(cells)
}

// isUnselected reports whether a Pod was last seen when no Service of the run selected it any more.
func (c *chart) isUnselected(pod model.Pod) bool {
	return slices.ContainsFunc(c.tl.Events, func(e model.Event) bool {
		return e.Kind == timeline.PodGone && e.Object.UID == pod.UID && e.Detail == timeline.NoLongerSelected
	})
}

// servicesOf are the Services that each Pod was an endpoint of, by its UID.
func servicesOf(tl *model.Timeline) map[string][]string {
	of := map[string][]string{}
	for _, e := range tl.Events {
		if e.Kind == timeline.EndpointChanged && !e.Object.IsZero() && !slices.Contains(of[e.Object.UID], e.Service) {
			of[e.Object.UID] = append(of[e.Object.UID], e.Service)
		}
	}
	return of
}

// podsToShow are the Pods that changed during the run, the worst first, and how many there were that did not.
func podsToShow(tl *model.Timeline, exits []exit) (pods []model.Pod, steady, hidden int) {
	for _, p := range tl.Pods {
		switch {
		case len(p.States) == 0:
		case isSteady(p, exits):
			steady++
		default:
			pods = append(pods, p)
		}
	}
	slices.SortStableFunc(pods, func(a, b model.Pod) int {
		return cmp.Or(cmp.Compare(harm(tl, b, exits), harm(tl, a, exits)), cmp.Compare(firstChange(a), firstChange(b)))
	})
	hidden = max(0, len(pods)-maxPods)
	return pods[:len(pods)-hidden], steady, hidden
}

// isSteady reports whether a Pod was ready when the run began to watch it, and stayed so.
func isSteady(p model.Pod, exits []exit) bool {
	return len(p.States) == 1 && p.States[0].State == "ready" && p.Created == nil &&
		!slices.ContainsFunc(exits, func(e exit) bool { return e.uid == p.UID })
}

// harm ranks what happened to a Pod: it broke, it was named as a cause, it ended, it came.
func harm(tl *model.Timeline, p model.Pod, exits []exit) int {
	rank := 0
	if slices.ContainsFunc(p.States, func(s model.PodState) bool {
		return strings.HasPrefix(s.State, "terminating") || s.State == "gone"
	}) {
		rank = 1
	}
	if slices.ContainsFunc(tl.Windows, func(w model.Window) bool {
		return len(w.Causes) > 0 && strings.Contains(w.Causes[0].Text, p.Name)
	}) {
		rank = 2
	}
	if slices.ContainsFunc(p.States, func(s model.PodState) bool { return s.State == "crashed" }) ||
		slices.ContainsFunc(exits, func(e exit) bool { return e.uid == p.UID && !e.ending }) {
		rank = 3
	}
	return rank
}

func firstChange(p model.Pod) time.Duration {
	if len(p.States) > 1 {
		return p.States[1].Start
	}
	return p.States[0].Start
}

// podLabels are names short enough for a lane: the last part of the Pod's name, where no other
// Pod has the same, and its node.
func (c *chart) podLabels(pods []model.Pod) map[string]string {
	short := map[string]int{}
	for _, p := range c.tl.Pods {
		short[lastPart(p.Name)]++
	}
	labels := map[string]string{}
	for _, p := range pods {
		name := lastPart(p.Name)
		if short[name] > 1 || len(c.tl.Run.Services) > 1 {
			name = p.Name // which says whose it is
		}
		name = document.CutMiddle(c.Say(name), 20, c.Ellipsis())
		labels[p.UID] = strings.TrimSpace("pod " + name + "  " + c.Say(p.Node))
	}
	return labels
}

// lastPart is what the cluster added to the name at random, if it looks so.
func lastPart(name string) string {
	if part := name[strings.LastIndexByte(name, '-')+1:]; len(part) >= 4 {
		return part
	}
	return name
}
