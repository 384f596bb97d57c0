package empty

import (
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
)

// This file finds which rule knows what emptied a Service. To add one: a file, and a line in emptiedBy and in rules.

// An emptyReason is a rule that knows what can empty a Service. Of several only the first that finds something speaks.
type emptyReason struct {
	Name, Doc string
	Needs     []rule.Need
	Reasons   []string

	// reports whether that emptied the Service, and notes what shows it
	finds     func(*emptiness) bool
	says      func(*emptiness) rule.Finding                  // called only if it did
	otherwise func(c *rule.Case, whyNot string) rule.Finding // called if it did not; nil: then the rule does not apply
}

// emptiedBy lists what can empty a Service, the most telling first.
var emptiedBy = []struct {
	rule  string
	finds func(*emptiness) bool
}{
	{SelectorSwitch.Name, SelectorSwitch.finds},
	{NoReadyEndpoint.Name, NoReadyEndpoint.finds}, // scaled to 0; its other reasons come last
	{AdmissionBlocked.Name, AdmissionBlocked.finds},
	{ReplacementWaits.Name, ReplacementWaits.finds},
	{"node-unreachable", (*emptiness).nodesDied},
	{NodePresumedDead.Name, NodePresumedDead.finds},
	{SharedReadiness.Name, SharedReadiness.finds},
}

// Rule returns the rule that names this reason.
func (r *emptyReason) Rule() rule.Rule {
	return rule.Rule{Name: r.Name, Doc: r.Doc, Needs: r.Needs, Reasons: r.Reasons, Test: r.test}
}

func (r *emptyReason) test(c *rule.Case) rule.Finding {
	e, whyNot := emptied(c)
	switch {
	case e != nil && e.rule == r.Name:
		return r.says(e)
	case e != nil:
		whyNot = "no endpoint was ready for another reason"
	}
	if r.otherwise != nil {
		return r.otherwise(c, whyNot)
	}
	return rule.No(whyNot)
}

// findRule finds which rule knows what emptied the Service: no-ready-endpoint if none does.
func (e *emptiness) findRule() {
	for _, reason := range emptiedBy {
		e.event, e.object = nil, ""
		if reason.finds(e) {
			e.rule = reason.rule
			return
		}
	}
	e.rule, e.event, e.object = NoReadyEndpoint.Name, nil, ""
}

// nodesPresumedDead reports whether the nodes of all Pods that left had just been found to report no more, none of
// the Pods being deleted.
func (e *emptiness) nodesPresumedDead() bool {
	for _, p := range e.leavers {
		ev := e.view.Changes.NodeLost(p.Node, model.Instant{Earliest: p.left.Earliest - followed,
			Latest: p.left.Latest})
		if ev == nil || p.TerminatingBy(e.span.Start.Earliest) {
			return false
		}
		e.event, e.object = ev, "Node/"+p.Node
	}
	return len(e.leavers) > 0
}

// nodesDied reports whether the nodes of all Pods that left were found to report no more, and these Pods did not
// answer at their own addresses either: then the Service was lost with the nodes, long before its endpoints left.
func (e *emptiness) nodesDied() bool {
	if !e.nodesPresumedDead() {
		return false
	}
	for _, p := range e.leavers {
		if e.view.Addresses.DirectName(e.window, p.Pod) == "" || e.wentOnAnswering(p) {
			return false
		}
	}
	return true
}
