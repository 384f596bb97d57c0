package correlate

import (
	"fmt"
	"time"

	"lapse/timeline"
)

// prober-fault: not the Service failed but the prober. Its own echo server, inside the same
// process, failed as well; or it stood still so long that answers came too late to count; or every
// target it probes failed at once, those of Pods that nothing had happened to included.
//
//	svc      ok ok x x x ok ok
//	control  ok ok x x x ok ok      the same instant, with no network between

func proberFault(v *view, w *Window) (*Cause, string) {
	signs := []func(*view, *Window) (*Cause, string){controlFailed, stoodStill, allFailed, localFaults}
	var best *Cause
	silent := "the control target and the prober were well"
	for _, sign := range signs {
		cause, why := sign(v, w)
		switch {
		case cause == nil && why != "":
			silent = why
		case cause == nil:
		case best == nil:
			best = cause
		default:
			best.Evidence = append(best.Evidence, cause.Evidence...)
			best.Confidence = High // two signs that do not depend on each other
		}
	}
	return best, silent
}

const proberFix = "nothing to change in the Service: count this time as unobserved, "

// controlFailed looks at the echo server inside the prober. It explains no more than a prober that stands still does, and for
// no longer than it failed.
func controlFailed(v *view, w *Window) (*Cause, string) {
	for _, t := range v.run.Targets {
		if t.Kind != timeline.Control || t.Source != v.target(w).Source {
			continue
		}
		trouble := v.troubleNear(t.Name, v.onset(w), w.Kind == Slow)
		if trouble == nil {
			continue
		}
		what := "the control target failed for up to " + span(trouble.Length.Max)
		if made := madeByProber(w); w.Kind != Slow && 2*made < w.Failed {
			return nil, fmt.Sprintf("%s, but %d of %d requests were answered, if badly, or refused", what, w.Failed-made, w.Failed)
		}
		if why := outlasts(v, w, trouble.Length.Max); why != "" {
			return nil, what + ", but " + why
		}
		return &Cause{
			Confidence: High,
			Text: fmt.Sprintf("the prober on %s got no good answer from its own echo server at the same time: %s",
				v.from(w), troubleText(trouble)),
			Fix: proberFix + fmt.Sprintf("and give the prober CPU and file descriptors of its own: it was unwell for up to %s", span(trouble.Length.Max)),
			Evidence: []Evidence{{
				Target: t.Name, At: &trouble.Start,
				Text: "the trouble of the control target began",
			}},
		}, ""
	}
	return nil, ""
}

// madeByProber counts the failures that a prober which does not run can make of good answers. A refusal and a bad answer are answers.
func madeByProber(w *Window) int {
	return some(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.NoSlot, timeline.Reset, timeline.EOF, timeline.Unreachable, timeline.Other)
}

// outlasts says that the window went on for longer than requests can wait that were sent while the prober was unwell.
func outlasts(v *view, w *Window, unwell time.Duration) string {
	if w.Length.Min <= unwell+v.run.Run.Timeout {
		return ""
	}
	return "requests failed for ≥ " + lowest(w.Length.Min)
}

func troubleText(w *Window) string {
	if w.Kind == Slow {
		return "answers late for " + spans(w.Length)
	}
	return classCounts(w.Classes) + " in " + spans(w.Length)
}

// stoodStill looks for a time in which the prober did not run. It explains only timeouts and late
// answers, and only a standstill long enough to make them: a refusal is an answer.
func stoodStill(v *view, w *Window) (*Cause, string) {
	for _, e := range v.stalls {
		if !e.At.Overlaps(v.onset(w)) {
			continue
		}
		stall := e.At.Latest - e.At.Earliest
		if why := cannotStall(v, w, stall); why != "" {
			return nil, fmt.Sprintf("the prober stood still for %s, but %s", span(stall), why)
		}
		return &Cause{
			Confidence: Medium,
			Text:       fmt.Sprintf("the prober on %s did not run for %s: it read answers too late", v.from(w), span(stall)),
			Fix:        proberFix + fmt.Sprintf("and give the prober CPU: no CPU limit, and a request that keeps others from starving it for %s", span(stall)),
			Evidence:   []Evidence{{Event: e.ID, At: new(e.At), Text: "the prober did not run"}},
		}, ""
	}
	return nil, ""
}

// cannotStall says why a standstill of this length cannot have made the window.
func cannotStall(v *view, w *Window, stall time.Duration) string {
	if w.Kind == Slow {
		if stall < v.target(w).SlowFrom/2 {
			return "that is too short to make answers this slow"
		}
		return ""
	}
	if !only(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.NoSlot) {
		return "that makes no " + classCounts(w.Classes)
	}
	if stall < v.run.Run.Timeout/2 {
		return "that is too short to make requests time out"
	}
	return outlasts(v, w, stall)
}

// allFailed looks at everything else this source probes: if each target failed, the direct ones of
// Pods that nothing had happened to included, then what they share is the prober and its network.
func allFailed(v *view, w *Window) (*Cause, string) {
	if w.Kind == Slow {
		return nil, ""
	}
	healthy := v.healthyOthers(w)
	if len(healthy) == 0 {
		return nil, ""
	}
	var evidence []Evidence
	for _, p := range healthy {
		trouble := v.outageNear(v.directName(w, p), v.onset(w))
		if trouble == nil || !p.ReadyWithin(trouble.Start.Latest, trouble.End.Earliest) {
			return nil, ""
		}
		evidence = append(evidence, Evidence{
			Target: v.directName(w, p), At: &trouble.Start,
			Text: p.Name + ", ready and untouched, began to fail at its own address",
		})
	}
	for _, t := range v.run.Targets {
		if t.Kind.Judged() && t.Source == v.target(w).Source && v.outageNear(t.Name, w.Span()) == nil {
			return nil, ""
		}
	}
	confidence := Low
	if len(healthy) > 1 {
		confidence = Medium
	}
	return &Cause{
		Confidence: confidence,
		Text: fmt.Sprintf("everything the prober on %s sends failed at once, what goes straight to the address of %s included",
			v.from(w), count(len(healthy), "healthy Pod")),
		Fix:      proberFix + fmt.Sprintf("and probe from ≥ 2 nodes to tell the prober's network from the Pods': %s cannot", count(len(healthy), "direct target")),
		Evidence: evidence,
		Rivals:   []string{"the network or the node that all of them share, or a fault common to all Pods"},
	}, ""
}

// localFaults looks for requests that our own system refused to send, or that a standstill of the prober made worthless. They
// explain only timeouts, and no more of them than there are such requests.
func localFaults(v *view, w *Window) (*Cause, string) {
	t := v.target(w)
	about := v.onset(w)
	about.Latest = w.End.Latest
	var at *Instant
	n := 0
	for _, gap := range v.run.Unobserved {
		in := Instant{Earliest: gap.Start, Latest: gap.End}
		if gap.Reason != ReasonLocal || gap.Target != w.Target || !in.Overlaps(about) {
			continue
		}
		n += max(1, int(float64(gap.End-gap.Start)/float64(time.Second)*t.Rate+0.5))
		if at == nil && in.Overlaps(v.onset(w)) {
			at = &in
		}
	}
	n = min(n, t.Classes[timeline.Local.String()])
	switch {
	case at == nil:
		return nil, ""
	case !only(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.NoSlot):
		return nil, fmt.Sprintf("%s failed on our side, but that makes no %s", count(n, "request"), classCounts(w.Classes))
	case n < w.Failed:
		return nil, fmt.Sprintf("only %s failed on our side, but %d otherwise", count(n, "request"), w.Failed)
	}
	tells := "tell"
	if n == 1 {
		tells = "tells"
	}
	return &Cause{
		Confidence: Low,
		Text:       fmt.Sprintf("%s had no ports or file descriptors left, or the prober stood still: %s failed on our side", v.from(w), count(n, "request")),
		Fix:        proberFix + fmt.Sprintf("and lower --rate, raise the limit of open files or give the prober CPU: %s %s nothing", count(n, "request"), tells),
		Evidence:   []Evidence{{Target: w.Target, At: at, Text: "requests failed on our side"}},
	}, ""
}
