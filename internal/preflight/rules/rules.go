// Package rules predicts what a drain, a rollout or a crash will do to a Service. Each [Rule] is a pure function of a
// [service.State], in a file of its own, and a line in the list below. [Judge] asks all of them. If a fact is missing,
// the rules that need it say so, and the others still judge.
//
// There is no LP10. It was to be "minReadySeconds 0 and a slow start", but minReadySeconds only delays a rollout: an
// endpoint is ready as soon as its Pod is, and a probe that says yes too early is in no spec.
package rules

import (
	"cmp"
	"slices"

	"lapse/internal/preflight/service"
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

// All lists the rules.
func All() []Rule { return slices.Clone(rules) }

// Judge asks every rule. The gravest findings come first.
func Judge(s *service.State) (found []Finding, unjudged []Unjudged) {
	found, unjudged = []Finding{}, []Unjudged{}
	for _, rule := range rules {
		why := rule.unable(s)
		if why != "" {
			unjudged = append(unjudged, Unjudged{rule.ID, rule.Name, why})
			continue
		}
		if rule.Unread != nil {
			if why := rule.Unread(s); why != "" {
				unjudged = append(unjudged, Unjudged{rule.ID, rule.Name, why})
			}
		}
		for _, f := range rule.Check(s) {
			f.Rule, f.Name, f.When = rule.ID, rule.Name, cmp.Or(f.When, rule.When)
			if f.ConfirmedBy == nil {
				f.ConfirmedBy = rule.ConfirmedBy
			}
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Compare(slices.Index(Severities, a.Severity), slices.Index(Severities, b.Severity))
	})
	return found, unjudged
}

// unable returns why a rule cannot judge, "" if it can.
func (r *Rule) unable(s *service.State) string {
	if s.Unrouted != "" && !r.AboutPods {
		return s.Missing[service.EndpointsFact]
	}
	if why := s.LacksAny(r.Needs); why != "" || r.Lacks == nil {
		return why
	}
	return r.Lacks(s)
}
