package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
	"lapse/timeline"
)

// This file judges what each node of --from observed. What one node missed, another may have seen; but a fault of one
// node shows only from there.

// A part is what several nodes send to one Service: the same requests over the same kind of connection.
type part struct {
	kind                   timeline.TargetKind
	service, portName, url string
}

// nodeCoverage returns what each node observed of a run that measures from several nodes, the least first. Of the
// parts that a node measures, the least observed counts.
func nodeCoverage(tl *model.Timeline) []model.NodeCoverage {
	parts := partsByNode(tl)
	nodes := askedNodes(tl, parts)
	holes := map[string][]windows.Period{}
	for _, u := range tl.Unobserved {
		holes[u.Target] = append(holes[u.Target], windows.Period{From: u.Start, To: u.End})
	}
	for _, byNode := range parts {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(byNode)), func(node string) bool {
			return nodes[node] != nil
		}) {
			continue // measured from elsewhere
		}
		whole := wholeOf(tl, byNode)
		for node, n := range nodes {
			var asked []windows.Period
			for _, p := range n.there {
				asked = append(asked, windows.Within(p, whole)...)
			}
			n.atMost(n.observedBy(byNode[node], asked, holes, tl.Run.Live))
		}
	}
	for i := range tl.Targets {
		t := &tl.Targets[i]
		if n := nodes[placeOf(t)]; n != nil && t.Kind == timeline.Held {
			n.atMost(model.NodeCoverage{Coverage: t.Coverage, Target: t.Name,
				Unobserved: time.Duration((1 - t.Coverage) * float64(t.Measured.Latest-t.Measured.Earliest))})
		}
	}
	list := make([]model.NodeCoverage, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, n.NodeCoverage)
	}
	slices.SortFunc(list, func(a, b model.NodeCoverage) int {
		return cmp.Or(cmp.Compare(a.Coverage, b.Coverage), cmp.Compare(a.Node, b.Node))
	})
	return list
}

// placeOf returns the node that a target is measured from, or the name of its source where no node is known.
func placeOf(t *model.Target) string { return cmp.Or(t.Node, t.Source) }

// partsByNode returns the judged targets of each part by the node that they are measured from. A prober that was
// started again has targets of its own.
func partsByNode(tl *model.Timeline) map[part]map[string][]*model.Target {
	parts := map[part]map[string][]*model.Target{}
	for i := range tl.Targets {
		t := &tl.Targets[i]
		key := part{t.Kind, t.Service, t.PortName, t.URL}
		if !t.Kind.Judged() || t.Service+t.URL == "" {
			continue
		}
		if parts[key] == nil {
			parts[key] = map[string][]*model.Target{}
		}
		parts[key][placeOf(t)] = append(parts[key][placeOf(t)], t)
	}
	return parts
}

// A nodeView is what one node observed, as far as it is known.
type nodeView struct {
	model.NodeCoverage
	there  []windows.Period // when it was to measure
	states []*model.Event   // whether it was ready, being drained, and there
}

// atMost takes over what the node observed of one part, if that is less.
func (n *nodeView) atMost(c model.NodeCoverage) {
	if c.Coverage < n.Coverage {
		n.Coverage, n.Unobserved, n.Target = c.Coverage, c.Unobserved, c.Target
	}
}

// askedNodes returns the nodes that were to measure: those with a prober, or without one that was to be there, and
// those that measure the same part as another.
func askedNodes(tl *model.Timeline, parts map[part]map[string][]*model.Target) map[string]*nodeView {
	nodes, states := map[string]*nodeView{}, nodeStates(tl)
	present := presence(tl, states)
	add := func(node string) *nodeView {
		if nodes[node] == nil {
			there, known := present[node]
			if !known {
				there = []windows.Period{{To: tl.Run.Duration}}
			}
			nodes[node] = &nodeView{model.NodeCoverage{Node: node, Coverage: 1}, there, states[node]}
		}
		return nodes[node]
	}
	measuring := map[string]bool{}
	for i := range tl.Targets {
		measuring[placeOf(&tl.Targets[i])] = true
	}
	for i := range tl.Events {
		e := &tl.Events[i]
		wasThere := len(windows.Merge(present[e.Object.Name])) > 0
		if e.Kind != timeline.ProberChanged || e.Object.IsZero() || !wasThere {
			continue
		}
		if n := add(e.Object.Name); !measuring[n.Node] {
			run := windows.Period{From: baselineBegan(tl), To: tl.Run.Duration}
			n.atMost(model.NodeCoverage{Unobserved: windows.Total(windows.Within(run, n.there))})
		}
	}
	for _, byNode := range parts {
		for node := range byNode {
			if len(byNode) > 1 {
				add(node)
			}
		}
	}
	return nodes
}

// nodeStates returns the events that say whether each node was ready, being drained, and there.
func nodeStates(tl *model.Timeline) map[string][]*model.Event {
	states := map[string][]*model.Event{}
	for i := range tl.Events {
		e := &tl.Events[i]
		if _, _, drain := e.DrainMark(); drain || e.Kind == timeline.NodeReady || e.Kind == timeline.NodeGone {
			states[e.Object.Name] = append(states[e.Object.Name], e)
		}
	}
	return states
}

// presence returns when each node was to measure: in the whole run, but
//   - from its prober's first request on, if the run did not wait for it, or the node was down when the run began and
//     had no prober then;
//   - from when its prober was missing, if that was not measuring before;
//   - not from when the node was gone until a prober measured on it again, or for [starting] after it was ready.
//
// A node that was down throughout has no periods. Nodes with nothing of that are not in the map.
func presence(tl *model.Timeline, states map[string][]*model.Event) map[string][]windows.Period {
	there, known := map[string][]windows.Period{}, map[string]bool{}
	for i := range tl.Events {
		e := &tl.Events[i]
		node, measures := e.Object.Name, e.Kind == timeline.ProberChanged && e.To == "measuring"
		all, ok := there[node]
		if !ok {
			all = []windows.Period{{To: tl.Run.Duration}}
		}
		last := len(all) - 1
		isThere := last >= 0 && all[last].To == tl.Run.Duration
		switch {
		case !isThere && (measures || e.Kind == timeline.NodeReady && e.To == "true"):
			p := windows.Period{From: e.At.Latest + starting, To: tl.Run.Duration}
			if measures {
				p.From, known[node] = e.At.Latest+gettingReady, true
			}
			all = append(all, p)
		case isThere && measures && last > 0:
			all[last].From = min(all[last].From, e.At.Latest+gettingReady)
		case !isThere:
			continue
		case e.Kind == timeline.NodeGone:
			all[last].To = min(all[last].To, e.At.Earliest)
		case e.Kind != timeline.ProberChanged || known[node]:
			continue
		case !measures && e.At.Latest <= 0 && wasDown(states[node]):
			all = nil
		default:
			if known[node] = true; e.To != "lost" {
				all[last].From = e.At.Latest
			}
		}
		there[node] = all
	}
	return there
}

// wasDown reports whether a node was not ready when the run began.
func wasDown(states []*model.Event) bool {
	return slices.ContainsFunc(states, func(e *model.Event) bool {
		return e.Kind == timeline.NodeReady && e.From == "" && e.To != "true"
	})
}

// ToldDown is how long before the API tells so a node may have gone down: up to 55 s after its last lease, which may be
// 10 s old (--node-monitor-grace-period 50 s and --node-monitor-period 5 s of kube-controller-manager), and a margin.
const ToldDown = 75 * time.Second

// awaited returns the parts of a missing period in which the node was to send requests. It was not while it was down:
// if it was being drained when the period began, and was then no longer ready or there, it is rebooted or removed: from
// [ToldDown] before that until [starting] after it is ready again. Of a node that was not being drained it may be that
// only this process cannot reach it.
func (n *nodeView) awaited(missing windows.Period) []windows.Period {
	marks, isDown := map[string]bool{}, false
	var down []windows.Period
	for _, e := range n.states {
		mark, set, drain := e.DrainMark()
		switch {
		case drain && set && e.At.Earliest <= missing.From:
			marks[mark] = true
		case drain && e.At.Earliest <= missing.From:
			delete(marks, mark)
		case drain:
		case e.Kind == timeline.NodeGone && e.At.Latest < missing.From:
			clear(marks) // another node may come with its name
		case e.Kind == timeline.NodeReady && e.To == "true":
			if isDown {
				down[len(down)-1].To = e.At.Latest + starting
			}
			isDown = false
		case len(marks) > 0 && !isDown && missing.From <= e.At.Latest && e.At.Earliest <= missing.To:
			p := windows.Period{From: max(missing.From, e.At.Earliest-ToldDown), To: missing.To}
			if down != nil {
				p.From = e.At.Latest
			}
			down, isDown = append(down, p), true
		}
	}
	return windows.Without(missing, windows.Merge(down))
}

// baselineBegan returns when the run stopped waiting for probers.
func baselineBegan(tl *model.Timeline) time.Duration {
	for i := range tl.Events {
		if e := &tl.Events[i]; e.Kind == timeline.RunPhase && e.To == string(timeline.PhaseBaseline) {
			return e.At.Earliest
		}
	}
	return 0
}

// wholeOf returns when a part was measured from any node, without the time in which the run waited for probers.
func wholeOf(tl *model.Timeline, byNode map[string][]*model.Target) []windows.Period {
	began := baselineBegan(tl)
	var all []windows.Period
	for _, targets := range byNode {
		for _, t := range targets {
			if from := max(began, t.Measured.Earliest); from < t.Measured.Latest {
				all = append(all, windows.Period{From: from, To: t.Measured.Latest})
			}
		}
	}
	return windows.Merge(all)
}

// observedBy returns what the node's targets observed of a part, as far as that is known while the run goes on.
func (n *nodeView) observedBy(targets []*model.Target, whole []windows.Period, holes map[string][]windows.Period,
	live bool) model.NodeCoverage {
	c := model.NodeCoverage{Coverage: 1}
	var seen []windows.Period
	for i, t := range targets {
		within := windows.Period{From: t.Measured.Earliest, To: t.Measured.Latest}
		for _, p := range windows.Without(within, windows.Merge(holes[t.Name])) {
			// Before a node's first request and after its last one, as between two, no gap counts that is short.
			if p.From == within.From {
				p.From -= t.GapLimit
				if i == 0 {
					p.From -= gettingReady
				}
			}
			if p.To == within.To {
				p.To += t.GapLimit
			}
			seen = append(seen, p)
		}
	}
	seen = windows.Merge(seen)
	total := time.Duration(0)
	for _, w := range whole {
		if live && len(targets) > 0 {
			w.To = min(w.To, slices.MaxFunc(targets, func(a, b *model.Target) int {
				return cmp.Compare(a.Measured.Latest, b.Measured.Latest)
			}).Measured.Latest)
		}
		if w.To > w.From {
			missing, unseen := windows.Without(w, seen), time.Duration(0)
			for _, p := range missing {
				unseen += windows.Total(n.awaited(p))
			}
			c.Unobserved += unseen
			total += w.To - w.From - windows.Total(missing) + unseen
		}
	}
	if total > 0 {
		c.Coverage = 1 - float64(c.Unobserved)/float64(total)
	}
	if len(targets) > 0 {
		c.Target = targets[0].Name
	}
	return c
}

// starting is how long the prober's Pod may take to start on a node that is ready again. It does so when the first Pods
// of the node do: before, nothing but the node itself sends requests from it.
const starting = time.Minute

// gettingReady is how long a prober may take until a target's first request is due.
const gettingReady = 150 * time.Millisecond

// maxNodes is how many nodes a sentence names.
const maxNodes = 3

// shortOf says how much the nodes that observed too little did observe; "" if each observed enough.
func shortOf(tl *model.Timeline) string {
	short := tl.ShortNodes()
	if len(short) == 0 {
		return ""
	}
	var said []string
	for _, n := range short[:min(len(short), maxNodes)] {
		said = append(said, wording.Silence(n))
	}
	if more := len(short) - maxNodes; more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s: each node must observe %s (--min-node-coverage), for a fault may show from one node alone",
		strings.Join(said, "; "), quantity.Percent(tl.MinNodeCoverage()))
}
