package preflight

import (
	"cmp"
	"fmt"
	"slices"

	"lapse/timeline"
)

// rules lists every rule, in the order in which they are asked.
var rules = []Rule{
	tooFewEndpoints,
	oneNode,
	noBudget,
	budgetBlocks,
	noPreStop,
	shortPreStop,
	shortGrace,
	fragileHook,
	weakProbes,
	replacementWaits,
	localTraffic,
	unusualService,
	pinnedToZone,
	sidecarEndsFirst,
	drainRefuses,
	noRoom,
	readinessGate,
	slowProxy,
	noPlaceToMeasure,
	wrongPods,
	applyScalesDown,
	removedVersion,
}

// Rules lists the rules.
func Rules() []Rule { return slices.Clone(rules) }

// A Rule knows one way in which a Service will lose requests, or a drain will not end.
type Rule struct {
	ID    string // such as LP05
	Name  string // in a word or two, joined by hyphens
	Doc   string // what it looks for, in one sentence
	Needs []Fact // what it cannot judge without

	// What a run says of its findings. Causes are named as RULE or RULE/REASON of correlate/causes.
	ConfirmedBy []string             // causes of which one confirms a finding; a finding may name others
	When        timeline.Disturbance // what its findings are about; a finding may name another
	Predicts    []string             // causes that it is there to predict: of an incident with one of them it should have had a finding

	Lacks  func(*State) string    // why it cannot judge although it has what it needs, "" if it can; may be nil
	Unread func(*State) string    // what it leaves out beside what it judges, "" if nothing; may be nil
	Check  func(*State) []Finding // called only where all of Needs is known; the findings' Rule is filled in by Judge
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

// severities are in the order in which findings are listed.
var severities = []Severity{WillLose, WillBlock, MayLose, Blind}

// Fails reports whether a finding of this severity is one to act on.
func (s Severity) Fails() bool { return s != Blind }

// A Finding is one prediction.
type Finding struct {
	Rule        string     `json:"rule"` // its ID
	Name        string     `json:"name"` // of the rule
	Severity    Severity   `json:"severity"`
	Prediction  string     `json:"prediction"`
	Evidence    []Evidence `json:"evidence"`
	Fix         string     `json:"fix"`
	ConfirmedBy []string   `json:"confirmedBy,omitempty"` // causes, as RULE or RULE/REASON: a run names one of them if it comes true. A rule leaves it nil where they are its own, and empty where a run names none
	Accepted    string     `json:"accepted,omitempty"`    // why the finding is accepted, from the baseline

	When timeline.Disturbance `json:"when,omitempty"` // what it is about; absent if a run in which nothing came of it does not refute it
	Node string               `json:"node,omitempty"` // where that is

	Place *Place  `json:"place,omitempty"` // where it stands in the manifests
	at    []Place // where each of the evidence does; its line is 0 where that is not known
}

// Evidence is one fact that a prediction rests on.
type Evidence struct {
	Object string `json:"object"` // such as Deployment/web
	Field  string `json:"field"`  // such as spec.strategy.type
	Value  string `json:"value"`
}

// fact returns evidence: what is known of an object.
func fact(object, field string, value any) Evidence {
	return Evidence{object, field, fmt.Sprint(value)}
}

// An Unjudged rule could not judge, or not all of it, for a fact that is missing.
type Unjudged struct {
	Rule string `json:"rule"`
	Name string `json:"name"`
	Why  string `json:"why"`
}

// A Result is what all rules say of a State.
type Result struct {
	Service   string     `json:"service"` // NAMESPACE/NAME; a manifest without a namespace has only the name
	Node      string     `json:"node,omitempty"`
	Endpoints string     `json:"endpoints"` // how many there are and where, in words
	RouteLag  string     `json:"routeLag"`  // how long routes outlive a Pod, as assumed or given
	Findings  []Finding  `json:"findings"`
	Accepted  []Finding  `json:"accepted"` // findings that the baseline accepts
	Unjudged  []Unjudged `json:"unjudged"`
	Notes     []string   `json:"notes"` // what was skipped, and what else is to be known

	Place *Place `json:"place,omitempty"` // of the Service, in the manifests

	kind, namespace, name string // of what is judged: a Service, or a workload without one
	blindFor              string // why nothing is known of the Pods; "" if something is
	rules                 []Rule // that are chosen
}

// Judge asks every rule. The gravest findings come first.
func Judge(s *State) Result {
	r := Result{
		Service: s.name(), Node: s.Node, Endpoints: s.placement(), RouteLag: s.RouteLag.String(),
		Findings: []Finding{}, Accepted: []Finding{}, Unjudged: []Unjudged{}, Notes: slices.Concat([]string{}, s.Notes),
		kind: cmp.Or(s.Unrouted, "Service"), namespace: s.Service.Namespace, name: s.Service.Name, blindFor: s.blindFor(), rules: rules,
	}
	for _, rule := range rules {
		why := s.lacksAny(rule.Needs)
		if s.Unrouted != "" && !slices.Contains(aboutPods, rule.ID) {
			why = s.Missing[EndpointsFact]
		}
		if why == "" && rule.Lacks != nil {
			why = rule.Lacks(s)
		}
		if why != "" {
			r.Unjudged = append(r.Unjudged, Unjudged{rule.ID, rule.Name, why})
			continue
		}
		if rule.Unread != nil {
			if why := rule.Unread(s); why != "" {
				r.Unjudged = append(r.Unjudged, Unjudged{rule.ID, rule.Name, why})
			}
		}
		for _, f := range rule.Check(s) {
			f.Rule, f.Name, f.When = rule.ID, rule.Name, cmp.Or(f.When, rule.When)
			if f.ConfirmedBy == nil {
				f.ConfirmedBy = rule.ConfirmedBy
			}
			r.Findings = append(r.Findings, f)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
	return r
}

// Fails reports whether there is a finding to act on that is not accepted.
func (r *Result) Fails() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity.Fails() })
}
