package measure

import (
	"maps"
	"time"

	"lapse/correlate/verdict"
	"lapse/timeline"
)

// leaving follows the nodes that others measure from, and what is heard of these. A drained node that is rebooted or
// removed takes its prober with it.
type leaving struct {
	nodes   map[timeline.SourceID]string        // of the probers
	heard   map[timeline.SourceID]time.Duration // when a prober told of requests last
	drained map[string]map[string]bool          // by node: what marks it as being drained
	down    map[string]bool                     // by node: it is not ready; those that are gone are forgotten
}

// mostLeaving is how long a run goes on for a drained node whose prober is not heard of any more.
const mostLeaving = verdict.ToldDown

// silentFor is how long nothing was heard of a prober that is forgotten when another one comes: of one that measures
// something is heard each few seconds.
const silentFor = 10 * time.Minute

func newLeaving() leaving {
	return leaving{
		nodes: map[timeline.SourceID]string{}, heard: map[timeline.SourceID]time.Duration{},
		drained: map[string]map[string]bool{}, down: map[string]bool{},
	}
}

// add takes in a fact that has come at now.
func (l *leaving) add(f timeline.Fact, now time.Duration) {
	switch f := f.(type) {
	case timeline.Source:
		if f.Role == timeline.Prober {
			l.forget(func(id timeline.SourceID) bool { return now-l.heard[id] < silentFor })
			l.nodes[f.ID], l.heard[f.ID] = f.Node, now
		}
	case timeline.Batch:
		if _, other := l.nodes[f.Source]; other {
			l.heard[f.Source] = now
		}
	case timeline.Event:
		node := f.Object.Name
		switch mark, set, ok := f.DrainMark(); {
		case !ok:
		case !set:
			delete(l.drained[node], mark)
		case l.drained[node] == nil:
			l.drained[node] = map[string]bool{mark: true}
		default:
			l.drained[node][mark] = true
		}
		switch f.Kind {
		case timeline.NodeReady:
			l.down[node] = f.To != "true"
		case timeline.NodeGone:
			delete(l.drained, node)
			delete(l.down, node)
		}
	}
}

// forget lets go of probers that nothing is measured by any more.
func (l *leaving) forget(measures func(timeline.SourceID) bool) {
	maps.DeleteFunc(l.nodes, func(id timeline.SourceID, _ string) bool { return !measures(id) })
	maps.DeleteFunc(l.heard, func(id timeline.SourceID, _ time.Duration) bool { return !measures(id) })
}

// left reports whether a prober's node is not ready, or gone.
func (l *leaving) left(id timeline.SourceID) bool { return l.isDown(l.nodes[id]) }

// isDown reports whether a node is not ready, or gone.
func (l *leaving) isDown(node string) bool {
	down, there := l.down[node]
	return down || !there && len(l.down) > 0 // without any, nodes are not watched
}

// isDrained reports whether something marks a node as being drained.
func (l *leaving) isDrained(node string) bool { return len(l.drained[node]) > 0 }

// leaves reports whether a drained node goes down at now, and the API has not told of it: its prober was not heard of
// for longer than late.
func (l *leaving) leaves(now, late time.Duration) bool {
	for id, heard := range l.heard {
		if silent := now - heard; silent > late && silent < mostLeaving && l.isDrained(l.nodes[id]) && !l.left(id) {
			return true
		}
	}
	return false
}
