package main

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// The states of an endpoint, in the words of timeline.json.
const (
	absent = "absent"
	ready  = "ready"
)

func (e endpoint) state() string {
	switch c := e.Conditions; {
	case c.Terminating && c.Serving:
		return "terminating+serving"
	case c.Terminating:
		return "terminating"
	case c.Ready:
		return ready
	default:
		return "not-ready"
	}
}

// unchanged is the kind of a change in which no endpoint's state changes.
const unchanged = "no endpoint changed"

// kindOf says what became of an EndpointSlice's endpoints: "ready → terminating+serving". Nodes begin to route to an
// endpoint that turns ready, and no longer do so when it is not ready any more, as long as others are.
func kindOf(before, after []endpoint) string {
	was, is := states(before), states(after)
	var kinds []string
	for uid, state := range is {
		if old := cmp.Or(was[uid], absent); old != state {
			kinds = append(kinds, old+" → "+state)
		}
	}
	for uid, old := range was {
		if is[uid] == "" {
			kinds = append(kinds, old+" → "+absent)
		}
	}
	slices.Sort(kinds)
	return cmp.Or(strings.Join(slices.Compact(kinds), ", "), unchanged)
}

func states(endpoints []endpoint) map[string]string {
	all := map[string]string{}
	for _, e := range endpoints {
		all[e.TargetRef.UID+" "+strings.Join(e.Addresses, ",")] = e.state()
	}
	return all
}

// isAddition and isRemoval report whether nodes begin or end to route to an endpoint after a change of this kind.
func isAddition(kind string) bool { return strings.Contains(kind, "→ "+ready) }
func isRemoval(kind string) bool {
	return strings.HasPrefix(kind, ready+" →") || strings.Contains(kind, ", "+ready+" →")
}

// attribute finds the changes that the samples of a node's kube-proxy are of. A sample is the time from the trigger
// time that a change carries until the rules were written, which was between two readings; so the growth of the sum
// says from which trigger times the new samples count. kube-proxy takes changes in their order, and drops those of a
// Service that is deleted. The samples that fit no change are unexplained.
func attribute(readings []reading, changes []sliceChange) (sampled []bool, unexplained int) {
	sampled = make([]bool, len(changes))
	var waiting []int // changes with a trigger time
	for i, c := range changes {
		if !c.trigger.IsZero() {
			waiting = append(waiting, i)
		}
	}
	for i := 1; i < len(readings); i++ {
		n := readings[i].samples - readings[i-1].samples
		if n <= 0 {
			continue
		}
		first := 0
		for first+n <= len(waiting) && !fits(readings[i-1], readings[i], changes, waiting[first:first+n]) {
			first++
		}
		if first+n > len(waiting) {
			unexplained += n
			continue
		}
		for _, change := range waiting[first : first+n] {
			sampled[change] = true
		}
		waiting = waiting[first+n:]
	}
	return sampled, unexplained
}

// fits reports whether the samples that came between two readings can be those of some changes.
func fits(before, after reading, changes []sliceChange, of []int) bool {
	const rounding = time.Millisecond
	var least, most time.Duration
	for _, i := range of {
		least += before.asked.Sub(changes[i].trigger) - rounding
		most += after.read.Sub(changes[i].trigger) + rounding
	}
	grown := time.Duration((after.sum - before.sum) * float64(time.Second))
	return least <= grown && grown <= most
}

// programmed is how many samples kube-proxy's own figure got after the changes of a run's EndpointSlice.
type programmed struct {
	nodes       []string
	rows        []programmedRow
	others      programmedRow  // of other Services
	unexplained map[string]int // by node
}

type programmedRow struct {
	kind      string
	changes   int
	triggered int            // of these carry a trigger time
	samples   map[string]int // by node
}

func (r *programmedRow) count(c sliceChange) {
	r.changes++
	if !c.trigger.IsZero() {
		r.triggered++
	}
}

// tabulate counts, for each kind of change of the Service's EndpointSlice, the samples of each node: additions first,
// then removals.
func tabulate(service string, changes []sliceChange, readings map[string][]reading) programmed {
	p := programmed{unexplained: map[string]int{}, others: programmedRow{samples: map[string]int{}}}
	row := func(c sliceChange) *programmedRow {
		if c.service != service {
			return &p.others
		}
		return &p.rows[slices.IndexFunc(p.rows, func(r programmedRow) bool { return r.kind == c.kind })]
	}
	for _, c := range changes {
		known := slices.ContainsFunc(p.rows, func(r programmedRow) bool { return r.kind == c.kind })
		if c.service == service && !known {
			p.rows = append(p.rows, programmedRow{kind: c.kind, samples: map[string]int{}})
		}
	}
	slices.SortStableFunc(p.rows, func(a, b programmedRow) int { return cmp.Compare(rank(a.kind), rank(b.kind)) })
	for _, c := range changes {
		row(c).count(c)
	}
	for node, of := range readings {
		p.nodes = append(p.nodes, node)
		sampled, unexplained := attribute(of, changes)
		p.unexplained[node] = unexplained
		for i, c := range changes {
			if sampled[i] {
				row(c).samples[node]++
			}
		}
	}
	slices.Sort(p.nodes)
	return p
}

func rank(kind string) int {
	switch {
	case isAddition(kind):
		return 0
	case isRemoval(kind):
		return 1
	default:
		return 2
	}
}

// total counts the changes of some kinds, those with a trigger time, and the samples of each node.
func (p programmed) total(kind func(string) bool) programmedRow {
	t := programmedRow{samples: map[string]int{}}
	for _, r := range p.rows {
		if !kind(r.kind) {
			continue
		}
		t.changes, t.triggered = t.changes+r.changes, t.triggered+r.triggered
		for node, n := range r.samples {
			t.samples[node] += n
		}
	}
	return t
}
