// Package rule is what rules about causes share: the case that a rule reads, the finding that it returns, and what
// rules of several families say. How confident a finding is follows from its signs: confidence.go.
package rule

import (
	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
)

// A Rule knows one way in which a window comes about.
type Rule struct {
	Name  string
	Doc   string // what it holds responsible, in one sentence; symptom and fix are on its page in docs/causes
	Needs []Need // facts without which the rule cannot judge a window

	// windows that the rule can be about: of others it is not asked, and does not say why it does not apply; nil: all
	Only func(*Case) bool

	Reasons []string // the ways in which it comes about that it knows apart

	Test func(*Case) Finding // called only where all needs are met; nil: it is about held connections alone
	// the same of a window of a held target, in which connections were cut; nil: it is about requests alone
	Held func(*Case) Finding
}

// A Need is a fact that a rule cannot do without.
type Need struct {
	Missing string // what is said of a window where it is missing
	Met     func(*Case) bool
}

// The facts that rules need.
var (
	RequestsFailed = Need{"requests were answered, only late", func(c *Case) bool {
		return c.Window.Kind != model.Slow
	}}
	RequestsCut = Need{"no request was cut", func(c *Case) bool {
		return evidence.Count(c.Window.Classes, evidence.CutClasses...) > 0
	}}
	PodsWatched      = Need{"no Pods were watched", func(c *Case) bool { return len(c.Services.Pods(c.Window)) > 0 }}
	EndpointsWatched = Need{"no endpoints were watched", func(c *Case) bool {
		return len(c.Services.Service(c.Window).Endpoints) > 0
	}}
	EndpointSlices = Need{"EndpointSlices could not be watched", func(c *Case) bool {
		return !c.Watches.LaneOff("endpointslice", c.Window)
	}}
)

// About reports whether the rule applies to windows of this kind.
func (r *Rule) About(c *Case) bool {
	if c.Window.Kind == model.CutKind {
		return r.Held != nil
	}
	return r.Test != nil
}

// Find tests a case if all facts that the rule needs are there.
func (r *Rule) Find(c *Case) Finding {
	for _, need := range r.Needs {
		if !need.Met(c) {
			return Finding{Missing: []evidence.Sign{evidence.Says(need.Missing)}}
		}
	}
	if c.Window.Kind == model.CutKind {
		return r.Held(c)
	}
	return r.Test(c)
}
