// Package causes explains windows. Each rule knows one way in which a window comes about; it reads the [Case] and
// returns what it found. How confident a cause is, what its rivals are and which comes first follows from that in one
// place: confidence.go.
package causes

import (
	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
)

// rules lists every rule. Where two are equally confident the upper one is named first.
var rules = []Rule{
	proberFault,
	proberIsolated,
	localNoEndpoint,
	noReadyEndpoint.rule(),
	selectorSwitch.rule(),
	portSwitch,
	replacementWaits.rule(),
	admissionBlocked.rule(),
	nodePresumedDead.rule(),
	sharedReadiness.rule(),
	dnsPath,
	nodeUnreachable,
	nodePortUnreachable,
	familyBroken,
	lbDrainGap,
	graceTooShort,
	preStopFailed,
	podCrashed,
	undeclaredTermination,
	controllerLag,
	kubeProxyLate,
	sidecarFirst,
	udpStaleEntry,
	routeOutlivesPod,
	staleAddress,
	ingressLag,
	failingVersion,
	startupRace,
	notYetReachable,
	acceptStall,
	podHung,
	forcedDelete,
	pinnedConnection,
	idleRace,
	flowsCut,
	idleTimeout,
}

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
	requestsFailed = Need{"requests were answered, only late", func(c *Case) bool {
		return c.Window.Kind != model.Slow
	}}
	requestsCut = Need{"no request was cut", func(c *Case) bool {
		return evidence.Count(c.Window.Classes, evidence.CutClasses...) > 0
	}}
	podsWatched      = Need{"no Pods were watched", func(c *Case) bool { return len(c.Services.Pods(c.Window)) > 0 }}
	endpointsWatched = Need{"no endpoints were watched", func(c *Case) bool {
		return len(c.Services.Service(c.Window).Endpoints) > 0
	}}
	endpointSlices = Need{"EndpointSlices could not be watched", func(c *Case) bool {
		return !c.Watches.LaneOff("endpointslice", c.Window)
	}}
)

// about reports whether the rule applies to windows of this kind.
func (r *Rule) about(c *Case) bool {
	if c.Window.Kind == model.CutKind {
		return r.Held != nil
	}
	return r.Test != nil
}

// find tests a case if all facts that the rule needs are there.
func (r *Rule) find(c *Case) Finding {
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

// Rules lists the rules that can name a cause, and what is said where none does.
func Rules() []Rule { return append(rules[:len(rules):len(rules)], unexplained) }
