package rules

import (
	"fmt"

	"lapse/internal/preflight/service"
	"lapse/timeline"
)

// A Rule knows one way in which a Service will lose requests, or a drain will not end.
type Rule struct {
	ID    string         // such as LP05
	Name  string         // in a word or two, joined by hyphens
	Doc   string         // what it looks for, in one sentence
	Needs []service.Fact // what it cannot judge without

	// AboutPods means that it also holds if nothing routes requests to the Pods.
	AboutPods bool

	// What a run says of its findings. Causes are named as RULE or RULE/REASON of correlate/causes.

	ConfirmedBy []string             // one of these causes confirms a finding; a finding may name others
	When        timeline.Disturbance // what its findings are about; a finding may name another
	Predicts    []string             // it should have found something before an incident with one of these causes

	Lacks  func(*service.State) string    // why it cannot judge although it has what it needs, "" if it can; may be nil
	Unread func(*service.State) string    // what it leaves out although it judges the rest, "" if nothing; may be nil
	Check  func(*service.State) []Finding // called only if all of Needs is known; Judge fills in Rule and Name
}

// A Severity says how sure a prediction is, and of what.
type Severity string

const (
	// WillLose: if what the prediction names happens, requests fail whatever the application does.
	WillLose Severity = "will-lose"
	// MayLose: requests fail or not, depending on what the spec does not say.
	MayLose Severity = "may-lose"
	// WillBlock: a drain or a rollout does not come to its end.
	WillBlock Severity = "will-block"
	// Blind: something that Lapse cannot see, and so cannot predict or measure.
	Blind Severity = "blind"
)

// Severities are in the order in which findings are listed.
var Severities = []Severity{WillLose, WillBlock, MayLose, Blind}

// A Finding is one prediction.
type Finding struct {
	Rule       string             `json:"rule"` // its ID
	Name       string             `json:"name"` // of the rule
	Severity   Severity           `json:"severity"`
	Prediction string             `json:"prediction"`
	Evidence   []service.Evidence `json:"evidence"`
	Fix        string             `json:"fix"`

	// ConfirmedBy are causes, as RULE or RULE/REASON: a run names one of them if the prediction comes true. A rule
	// leaves it nil where they are the rule's, and empty where a run names none.
	ConfirmedBy []string `json:"confirmedBy,omitempty"`

	// When is the disturbance that it is about. A run with such a disturbance and without a failure refutes the
	// finding; if When is absent, no run does.
	When timeline.Disturbance `json:"when,omitempty"`
	Node string               `json:"node,omitempty"` // where that is
}

// An Unjudged rule could not judge, or not all of it, for a fact that is missing.
type Unjudged struct {
	Rule string `json:"rule"`
	Name string `json:"name"`
	Why  string `json:"why"`
}

// fact returns evidence about an object.
func fact(object, field string, value any) service.Evidence {
	return service.Evidence{Object: object, Field: field, Value: fmt.Sprint(value)}
}

// oneOf returns the share of requests that one endpoint gets if there are no more than the least number of endpoints.
func oneOf(n service.Amount) string {
	switch {
	case !n.Known():
		return "some requests"
	case n.Least <= 1:
		return "all requests"
	}
	return fmt.Sprintf("1 in %d requests", n.Least)
}
