package verdict

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file makes the figures of a verdict: what was lost, and how good the measurement was.

// figures adds up what the verdict rests on: failed over all judged targets, of everything else the
// worst target's.
func figures(tl *model.Timeline) model.Verdict {
	v := losses(tl)
	v.Gates, v.Reasons, v.Validity, v.Nodes = []model.GateResult{}, []string{}, validity(tl), nodeCoverage(tl)
	v.Blind = blindness(tl)
	return v
}

// blindness says what a success proves of judged targets that await no answer: an outage of the application
// behind them does not show. It is "" if there is none.
func blindness(tl *model.Timeline) string {
	var of, proofs []string
	others := false
	for i := range tl.Targets {
		switch t := &tl.Targets[i]; {
		case !t.Kind.Judged():
		case !t.Blind:
			others = true
		default:
			of = append(of, t.Name)
			if !slices.Contains(proofs, t.Proves) {
				proofs = append(proofs, t.Proves)
			}
		}
	}
	if len(of) == 0 {
		return ""
	}
	text := "blind: a success shows only that " + strings.Join(proofs, ", or that ")
	if others {
		text += fmt.Sprintf(" (%s)", strings.Join(of, ", "))
	}
	return text
}

// losses returns the figures that tell what was lost.
func losses(tl *model.Timeline) (v model.Verdict) {
	first, gaps, lost := true, gapsByTarget(tl), map[string][]*model.Window{}
	for w := range downtimes(tl) {
		lost[w.Target] = append(lost[w.Target], w)
	}
	for i := range tl.Targets {
		t := &tl.Targets[i]
		if t.Kind == timeline.Held && (first || t.Coverage < v.Coverage) {
			v.Coverage, first = t.Coverage, false
		}
		if !t.Kind.Judged() {
			continue
		}
		addTarget(&v, t)
		addWindows(&v, lost[t.Name], gaps[t.Name])
		if coverage := t.ServiceCoverage(); first || coverage < v.Coverage {
			v.Coverage = coverage
		}
		first = false
	}
	return v
}

// bound widens what the windows amount to by what may lie in unobserved time, as gates do: one figure has one error
// bar, in the verdict, in its gates and in what reports say first.
func bound(v *model.Verdict, tl *model.Timeline) {
	total, _ := totalDowntime(tl, v)
	v.Downtime = model.Downtime{Total: total.Length(), Open: total.Open}
	if v.LongestWindow != nil {
		longest, _ := longestWindow(tl, v)
		v.LongestWindow = new(longest.Length())
	}
	if v.LongestBlackout != nil {
		longest, _ := longestBlackout(tl, v)
		v.LongestBlackout = new(longest.Length())
	}
}

func addTarget(v *model.Verdict, t *model.Target) {
	v.Sent += t.Sent
	v.Failed += t.Failed
	v.DetectionLimit = max(v.DetectionLimit, t.Resolution)
	if t.Sent > 0 {
		v.ErrorRate = max(v.ErrorRate, float64(t.Failed)/float64(t.Sent))
	}
	if t.Latency != nil && (v.LatencyP99 == nil || t.Latency.P99 > *v.LatencyP99) {
		v.LatencyP99 = new(t.Latency.P99)
	}
}

// addWindows takes over what the windows of one target amount to, where it is worse than the others'. gaps is the
// target's unobserved time.
func addWindows(v *model.Verdict, windows []*model.Window, gaps []model.Unobserved) {
	var total model.Length
	for _, w := range windows {
		total.Min += w.Downtime.Min
		total.Max += w.Downtime.Max
		v.LongestWindow = model.Longer(v.LongestWindow, w.Length)
		if b := blackout(w, gaps); b != nil {
			v.LongestBlackout = model.Longer(v.LongestBlackout, *b)
		}
	}
	v.Windows = max(v.Windows, len(windows))
	v.Downtime.Total = *model.Longer(&v.Downtime.Total, total)
}

// blackout returns the window's longest stretch without a success; an outage is one from end to end. Where unobserved
// time parts its failures, so that fewer than three follow each other, it need not be one at all.
func blackout(w *model.Window, gaps []model.Unobserved) *model.Length {
	if w.Blackout != nil || w.Kind != model.Outage {
		return w.Blackout
	}
	if slices.ContainsFunc(gaps, func(u model.Unobserved) bool { return touchesGap(w, u) }) {
		return &model.Length{Max: w.Length.Max}
	}
	return &w.Length
}
