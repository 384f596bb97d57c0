package empty

import (
	"lapse/correlate/causes/rule"
)

// This file finds which rule knows what emptied a Service. To add one: a file, and a line in emptiedBy and in rules.

// emptiedBy lists what can empty a Service, the most telling first.
var emptiedBy = []struct {
	rule  string
	finds func(*emptiness) bool
}{
	{SelectorSwitch.Name, SelectorSwitch.finds},
	{NoReadyEndpoint.Name, NoReadyEndpoint.finds}, // scaled to 0; its other reasons come last
	{AdmissionBlocked.Name, AdmissionBlocked.finds},
	{ReplacementWaits.Name, ReplacementWaits.finds},
	{"node-unreachable", nodesDied},
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

// emptied finds whether the window's Service had no endpoint to route to, and what emptied it. Else it says why not.
func emptied(c *rule.Case) (e *emptiness, whyNot string) {
	found, known := c.Kept.(foundEmpty)
	if !known {
		found.e, found.whyNot = findEmpty(c)
		c.Kept = found
	}
	return found.e, found.whyNot
}

// foundEmpty is what emptied found of a case.
type foundEmpty struct {
	e      *emptiness // nil if the Service had an endpoint
	whyNot string     // then why
}

func findEmpty(c *rule.Case) (e *emptiness, whyNot string) {
	span, whyNot := c.Addresses.EmptyIn(c.Window)
	if span == nil {
		return nil, whyNot
	}
	e = &emptiness{view: c.Evidence, window: c.Window, span: span}
	e.findLeavers()
	e.findRule()
	return e, ""
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
