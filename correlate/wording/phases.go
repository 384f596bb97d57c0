package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says how an incident went, instant by instant.

const (
	mostPhases = 5 // between the first and the last failed request, which are said too
	// an instant known worse than this orders nothing
	widestPhase = 1500 * time.Millisecond
)

// phases returns the instants that an incident's first cause rests on, between its first and its last failed request,
// by time. Pods that did the same share a line.
func (in *incident) phases() []model.Phase {
	phases := []model.Phase{}
	if len(in.Causes) == 0 || in.Causes[0].Rule == model.Unexplained {
		return phases
	}
	pods := map[string]bool{} // that the cause names
	for _, p := range in.shared(pods) {
		phases = append(phases, in.run.phase(p.at, p.text()))
	}
	phases = append(phases, in.run.routed(pods)...)
	if p, ok := in.run.replacement(pods); ok {
		phases = append(phases, p)
	}
	in.run.sortPhases(phases)
	phases = bestKnown(phases, mostPhases)
	if in.FailedFrom != nil {
		at := model.Instant{Earliest: *in.FailedFrom, Latest: *in.FailedFrom}
		phases = append(phases, in.run.phase(at, "the first failed request was due"))
	}
	if in.FailedTo != nil && *in.FailedTo > *in.FailedFrom {
		at := model.Instant{Earliest: *in.FailedTo, Latest: *in.FailedTo}
		phases = append(phases, in.run.phase(at, "the last failed request was due"))
	}
	in.run.sortPhases(phases)
	return phases
}

// bestKnown drops the instants that are known worst, but never the first, until n are left.
func bestKnown(phases []model.Phase, n int) []model.Phase {
	for len(phases) > n {
		worst := 1
		for i := 2; i < len(phases); i++ {
			if width(phases[i].At) > width(phases[worst].At) {
				worst = i
			}
		}
		phases = slices.Delete(phases, worst, worst+1)
	}
	return phases
}

func width(at model.Instant) time.Duration { return at.Latest - at.Earliest }

// sortPhases sorts by the time that is written first.
func (s *scene) sortPhases(phases []model.Phase) {
	slices.SortStableFunc(phases, func(a, b model.Phase) int {
		return cmp.Or(quantity.From(s.tl, a.At).Compare(quantity.From(s.tl, b.At)),
			cmp.Compare(a.At.Latest, b.At.Latest))
	})
}

// A step is what one or several Pods did.
type step struct {
	pods []string
	what string
	at   model.Instant // of several, when the last did
}

func (p *step) text() string {
	switch len(p.pods) {
	case 0:
		return p.what
	case 1:
		return p.pods[0] + " " + p.what
	}
	return fmt.Sprintf("the last of %d Pods %s", len(p.pods), p.what)
}

// shared returns what the evidence of an incident's first cause says to have happened until its last request failed,
// without what it says of these requests. It notes which Pods that names.
func (in *incident) shared(named map[string]bool) []*step {
	var steps []*step
	for _, e := range in.Causes[0].Evidence {
		switch {
		case e.At == nil, e.At.Latest-e.At.Earliest > widestPhase, slices.Contains(in.Targets, e.Target):
			continue
		case in.FailedTo != nil && e.At.Earliest > *in.FailedTo:
			continue
		}
		pod, what := in.run.podOf(e.Text)
		if pod != "" {
			named[pod] = true
		}
		i := slices.IndexFunc(steps, func(o *step) bool { return pod != "" && len(o.pods) > 0 && o.what == what })
		if i < 0 {
			steps = append(steps, &step{what: what, at: *e.At})
			i = len(steps) - 1
		}
		if pod != "" {
			steps[i].pods = append(steps[i].pods, pod)
		}
		if e.At.Latest > steps[i].at.Latest {
			steps[i].at = *e.At
		}
	}
	return steps
}

// podOf parts the name of a Pod from what a sentence says of it; "" if it begins with none.
func (s *scene) podOf(text string) (pod, what string) {
	for i := range s.tl.Pods {
		if rest, ok := strings.CutPrefix(text, s.tl.Pods[i].Name+" "); ok {
			return s.tl.Pods[i].Name, rest
		}
	}
	return "", text
}

// routed says when the last node had taken these Pods out of its routes.
func (s *scene) routed(pods map[string]bool) []model.Phase {
	var last *model.Route
	for i := range s.tl.Routes {
		r := &s.tl.Routes[i]
		if r.Change != model.Removal || !pods[r.Pod] || r.Open {
			continue
		}
		if last == nil || r.Changed.Latest > last.Changed.Latest {
			last = r
		}
	}
	if last == nil || last.Changed.Latest-last.Changed.Earliest > widestPhase {
		return nil
	}
	return []model.Phase{s.phase(last.Changed, "the last route followed, that of "+last.Node)}
}

// replacement says when the first Pod was ready that was made after one of these was to end.
func (s *scene) replacement(pods map[string]bool) (model.Phase, bool) {
	var ended, first *model.Pod
	for i := range s.tl.Pods {
		if p := &s.tl.Pods[i]; pods[p.Name] && p.Deleted != nil && p.Owner != "" {
			ended = p
			break
		}
	}
	if ended == nil {
		return model.Phase{}, false
	}
	for i := range s.tl.Pods {
		p := &s.tl.Pods[i]
		if p.Namespace == ended.Namespace && p.Owner == ended.Owner && p.Created != nil && p.EndpointReady != nil &&
			p.Created.Latest > ended.Deleted.Earliest &&
			(first == nil || p.EndpointReady.Latest < first.EndpointReady.Latest) {
			first = p
		}
	}
	if first == nil || first.EndpointReady.Latest-first.EndpointReady.Earliest > widestPhase {
		return model.Phase{}, false
	}
	text := first.Name + ", a new Pod, was a ready endpoint"
	if first.Node != "" {
		text += ", on " + first.Node
	}
	return s.phase(*first.EndpointReady, text), true
}

func (s *scene) phase(at model.Instant, text string) model.Phase {
	return model.Phase{At: at, When: quantity.Instant(s.tl, at), Text: text}
}
