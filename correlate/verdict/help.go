package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file says what would make an inconclusive run conclusive. There is advice for each reason for unobserved time.

// help says what would make an inconclusive run conclusive; "" if that is not known.
func (j judgement) help() string {
	undecided := slices.ContainsFunc(j.v.Gates, func(g model.GateResult) bool {
		return g.Outcome == model.GateUndecided && g.Value != nil
	})
	switch {
	case j.tl.Run.Live, j.aborted(), j.v.Result != model.Inconclusive, j.v.Sent == 0:
		return ""
	case untested(j.tl) != "":
		return "see what the command printed; disturb a node or workload that the Service's Pods belong to"
	case unfinished(j.tl) != "":
		return "measure until the rollout is over: `kubectl rollout status` as a part of the command, " +
			"or a longer --settle"
	case j.v.Coverage < j.tl.MinCoverage():
		gaps := unobservedTime(j.tl, nil)
		help := gaps.advice(j.tl)
		if enough := j.enough(); enough > 0 && gaps.shorten() {
			help += fmt.Sprintf("; where only outages longer than %v matter, judge it with --resolution %v", enough,
				enough)
		}
		return help
	case len(j.tl.ShortNodes()) > 0:
		help := "see why these nodes were silent, under UNOBSERVED and VALID"
		if gaps := unobservedTime(j.tl, j.tl.ShortNodes()); len(gaps) > 0 {
			help = gaps.advice(j.tl)
		}
		return help + "; a lower --min-node-coverage accepts it"
	case j.readLate():
		return stallAdvice + ": it read answers late, and how long these took is not known"
	case undecided && sumHeld(j.tl).missing > 0:
		return "measure until every connection is back: a longer --settle"
	case undecided && len(j.tl.Unobserved) > 0:
		return unobservedTime(j.tl, nil).advice(j.tl) + ": what was not observed widens the error bars; a higher " +
			"--rate narrows them"
	case undecided:
		if _, since, ok := j.tl.LimitSince(); ok {
			return fmt.Sprintf("a higher --idle-rate narrows the error bars: until %s fewer requests were sent",
				quantity.Span(since))
		}
		return "a higher --rate narrows the error bars"
	}
	return ""
}

// readLate reports whether a limit of latency is undecided for answers that the prober read late.
func (j judgement) readLate() bool {
	return slices.ContainsFunc(j.v.Gates, func(g model.GateResult) bool {
		return g.Outcome == model.GateUndecided && g.Metric == "latency.p99"
	}) && slices.ContainsFunc(j.tl.Targets, func(t model.Target) bool {
		return t.Kind.Judged() && t.Latency != nil && t.Latency.P99Bounds != nil
	})
}

// enough returns the --resolution at which enough of the time would have been observed; 0 if that would take more than
// a second.
func (j judgement) enough() time.Duration {
	enough, gaps := time.Duration(0), gapsByTarget(j.tl)
	for i := range j.tl.Targets {
		t := &j.tl.Targets[i]
		if !t.Kind.Judged() {
			continue
		}
		spare := time.Duration((1 - j.tl.MinCoverage()) * float64(t.Measured.Latest-t.Measured.Earliest))
		var holes []time.Duration
		for _, u := range gaps[t.Name] {
			holes = append(holes, u.End-u.Start)
		}
		slices.Sort(holes)
		for _, hole := range slices.Backward(holes) {
			if spare -= hole; spare < 0 {
				enough = max(enough, hole)
				break
			}
		}
	}
	if enough > time.Second {
		return 0
	}
	return quantity.Ceil(enough, 10*time.Millisecond)
}

// A share is how much time was not observed for one reason, and the first such time.
type share struct {
	reason string
	total  time.Duration
	first  model.Unobserved
}

// shares are the reasons to give advice on, the largest first.
type shares []share

// unobservedTime returns why time of the judged targets was not observed: the largest reason, and each other one that
// alone keeps the run from passing. If nodes are given, only their targets count.
func unobservedTime(tl *model.Timeline, nodes []model.NodeCoverage) shares {
	measured, counted := time.Duration(0), map[string]bool{}
	for i := range tl.Targets {
		t := &tl.Targets[i]
		here := func(n model.NodeCoverage) bool { return n.Node == placeOf(t) }
		if t.Kind.Judged() && (nodes == nil || slices.ContainsFunc(nodes, here)) {
			measured += t.Measured.Latest - t.Measured.Earliest
			counted[t.Name] = true
		}
	}
	all := reasonsOf(tl, func(target string) bool { return counted[target] })
	spare := time.Duration((1 - tl.MinCoverage()) * float64(measured))
	for i, s := range all {
		if i > 0 && s.total <= spare {
			return all[:i]
		}
	}
	return all
}

// reasonsOf returns each reason for which time of some targets was not observed, the largest first. What was not sent
// is the prober's stall.
func reasonsOf(tl *model.Timeline, of func(target string) bool) shares {
	byReason := map[string]share{}
	for _, u := range tl.Unobserved {
		if !of(u.Target) {
			continue
		}
		if u.Reason == model.ReasonNotSent {
			u.Reason = model.ReasonStalled
		}
		s, known := byReason[u.Reason]
		if !known {
			s = share{reason: u.Reason, first: u}
		}
		s.total += u.End - u.Start
		byReason[u.Reason] = s
	}
	return slices.SortedFunc(maps.Values(byReason), func(a, b share) int {
		return cmp.Or(cmp.Compare(b.total, a.total), strings.Compare(a.reason, b.reason))
	})
}

// WhyUnobserved returns the reason for which most of a target's unobserved time was not observed.
func WhyUnobserved(tl *model.Timeline, target string) string {
	all := reasonsOf(tl, func(t string) bool { return t == target })
	if len(all) == 0 {
		return model.ReasonStalled
	}
	return all[0].reason
}

// shorten reports whether a higher --resolution may count all of the time as observed: gaps between requests do.
func (s shares) shorten() bool {
	return !slices.ContainsFunc(s, func(s share) bool {
		return s.reason != model.ReasonStalled && s.reason != model.ReasonLocal
	})
}

// advice returns what to change, the largest reason first.
func (s shares) advice(tl *model.Timeline) string {
	advice := make([]string, len(s))
	for i, s := range s {
		advice[i] = s.advice(tl)
	}
	return cmp.Or(strings.Join(advice, "; "), stallAdvice)
}

const stallAdvice = "give the prober CPU, or lower --rate"

func (s share) advice(tl *model.Timeline) string {
	switch s.reason {
	case model.ReasonLocal:
		return shortageAdvice(shortages(tl)[s.first.Target])
	case model.ReasonGone:
		return "leave every prober running until the run is over: " + lostProbers(tl)
	case model.ReasonEnded:
		return fmt.Sprintf("measure again to the end: nothing came from %s after %s", s.first.Target,
			quantity.Span(s.first.Start))
	case model.ReasonLost:
		return "judge a whole copy of the recording, or measure again: a part of it is damaged or missing"
	case model.ReasonJumped:
		return "measure again while nothing sets the prober's clock or suspends its machine"
	}
	return stallAdvice
}

// lostProbers names the first prober that was lost, and why, and how many more were.
func lostProbers(tl *model.Timeline) string {
	text, more := "", 0
	for i := range tl.Events {
		switch e := &tl.Events[i]; {
		case e.Kind != timeline.ProberChanged || e.To != "lost" || e.Object.IsZero():
		case text == "":
			text = "that on " + e.Object.Name + " was lost (" + e.Detail + ")"
		default:
			more++
		}
	}
	if more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// shortageAdvice returns what helps against a shortage of the prober's; if it is not known, what may help.
func shortageAdvice(text string) string {
	switch {
	case slices.Contains(noFiles, text):
		return "raise the prober's limit of open files (ulimit -n), or lower --rate: " + text
	case slices.Contains(noPorts, text):
		return "free local ports where the prober runs, or lower --rate: " + text
	case slices.Contains(noMemory, text):
		return "give the prober memory, or lower --rate: " + text
	}
	return "raise the prober's limit of open files, lower --rate or give the prober CPU: requests failed on its side"
}
