package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// For how long a run waits for a target of which nothing is known yet: so many lengths of the baseline, and longer
// while the prober itself did not run.
const (
	mostBaselines  = 4
	longestStarved = 10 * time.Second
)

// A baselineProblem is why a run must not go on after its baseline.
type baselineProblem struct {
	text    string
	unknown bool // no request is over: the prober was stopped, or the target is slow
	starved bool // it was the prober
}

// judgeBaseline returns nil if the run may go on. A target is well that answered at least half of the requests that
// are over, and one of them at least: where answers are awaited for longer than the baseline lasts, none has failed
// yet. Without a baseline nobody wants to know.
func (m *measurement) judgeBaseline() *baselineProblem {
	m.absorb()
	now := m.clock.Now()
	tl := m.live.Tracker.Brief()
	within, stopped := quantity.Span(now.Round(10*time.Millisecond)), stoppedFor(tl)
	starved := stopped*2 > now || m.controlSilent(tl, now)
	var unknown *baselineProblem // of the first such target
	if m.opts.Baseline > 0 {
		if held := m.judgeHeld(tl); held != nil && !held.unknown {
			return held
		} else {
			unknown = held
		}
	}
	for _, t := range tl.Targets {
		switch {
		case !t.Kind.Judged(), m.opts.Baseline == 0:
		case t.Failed*2 > t.Sent:
			class := commonest(t.Classes)
			why := class
			if text := m.errors[errorKey{t.Name, class}]; text != "" {
				why += ": " + text
			}
			advice := cmp.Or(baselineHints[class], "is the address right, and is it up?")
			if answersElsewhere(tl, t) {
				advice = fmt.Sprintf("other nodes get answers: does a NetworkPolicy, or the network of %s, keep its prober from them? --from can leave %[1]s out", t.Node)
				if t.Node == "" {
					advice = fmt.Sprintf("others get answers: does %s lead to this Service from outside of the cluster, and may this machine ask there? --from can leave outside out", t.URL)
				}
			}
			return &baselineProblem{text: fmt.Sprintf("baseline failed: %d of %d requests to %s failed (%s): %s", t.Failed, t.Sent, t.Name, why, advice)}
		case t.OK > 0:
		case t.NotSent > 0 || starved:
			unknown = cmp.Or(unknown, &baselineProblem{unknown: true, starved: true, text: fmt.Sprintf("baseline inconclusive for %s: within %s the prober was starved: %s. "+
				"Give it CPU, or a longer --baseline", t.Name, within, starvation(stopped, t.NotSent))})
		default:
			rate := fmt.Sprintf("--rate %v", m.opts.Rate)
			if m.fleet != nil {
				rate += " shared by " + quantity.Count(len(m.fleet.nodes), "node")
			}
			unknown = cmp.Or(unknown, &baselineProblem{unknown: true, text: fmt.Sprintf("baseline failed: %s gave no good answer within %s: is the address right, and is it up? "+
				"If it is slow, or hardly asked at %s, give it a longer --baseline", t.Name, within, rate)})
		}
	}
	return unknown
}

// answersElsewhere reports whether what one node's prober asks answers that of another node.
func answersElsewhere(tl *model.Timeline, t model.Target) bool {
	return slices.ContainsFunc(tl.Targets, func(other model.Target) bool {
		return other.Node != "" && other.Node != t.Node && other.Kind == t.Kind && other.Service == t.Service && other.OK > other.Failed
	})
}

// controlSilent reports whether not even the prober's own control target answered, although several requests to it
// were due.
func (m *measurement) controlSilent(tl *model.Timeline, now time.Duration) bool {
	return slices.ContainsFunc(tl.Targets, func(t model.Target) bool {
		return t.Kind == timeline.Control && t.OK == 0 && t.Rate*now.Seconds() >= 3
	})
}

// starvation says what is known of a prober that hardly ran.
func starvation(stopped time.Duration, notSent int) string {
	var signs []string
	if stopped > 0 {
		signs = append(signs, "it was stopped for "+quantity.Span(stopped))
	}
	if notSent > 0 {
		signs = append(signs, fmt.Sprintf("%s not sent, or failed locally", quantity.Count(notSent, "request")))
	}
	if len(signs) == 0 {
		return "its own control target was not asked either"
	}
	return strings.Join(signs, ", ")
}

// stoppedFor is for how long the prober was stopped so far.
func stoppedFor(tl *model.Timeline) (length time.Duration) {
	for _, e := range tl.Events {
		if e.Kind == timeline.ProberStall {
			length += e.At.Latest - e.At.Earliest
		}
	}
	return length
}

// baselineHints say what to check first where requests fail so from the beginning.
var baselineHints = map[string]string{
	timeline.DNS.String():     "is the name right?",
	timeline.TLS.String():     "--ca-file says whom to trust, --host which name to ask for",
	timeline.HTTP4xx.String(): statusHint,
	timeline.HTTP5xx.String(): statusHint,
	timeline.Body.String():    "--expect-status and --expect-body say what a good answer is",
}

const statusHint = "check the path, --header, --host and --method; if that is a good answer, --expect-status says so"

// commonest is the class of most failures; of several as common, always the same. What was our own fault is none.
func commonest(classes map[string]int) string {
	name, most := "", 0
	for class := range timeline.NumClasses {
		if n := classes[class.String()]; class.Failed() && n > most {
			name, most = class.String(), n
		}
	}
	return name
}
