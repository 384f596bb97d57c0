package measure

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

// A Problem is why a run must not go on after its baseline.
type Problem struct {
	Text    string
	Unknown bool // no request is over: the prober was stopped, or the target is slow
	Starved bool // it was the prober
}

// JudgeBaseline returns nil if the run may go on. A target is well that answered at least half of the requests that
// are over, and one of them at least: where answers are awaited for longer than the baseline lasts, none has failed
// yet. Without a baseline nobody wants to know.
func (l *Loop) JudgeBaseline() *Problem {
	l.Absorb()
	now := l.Clock.Now()
	tl := l.Live.Tracker.Brief()
	within, stopped := quantity.Span(now.Round(10*time.Millisecond)), stoppedFor(tl)
	starved := stopped*2 > now || controlSilent(tl, now)
	var unknown *Problem // of the first such target
	if l.Baseline > 0 {
		if held := l.judgeHeld(tl); held != nil && !held.Unknown {
			return held
		} else {
			unknown = held
		}
	}
	for _, t := range tl.Targets {
		switch {
		case !t.Kind.Judged(), l.Baseline == 0:
		case t.Failed*2 > t.Sent:
			class := Commonest(t.Classes)
			why := class
			if text := l.errors[errorKey{t.Name, class}]; text != "" {
				why += ": " + text
			}
			advice := cmp.Or(baselineHints[class], "is the address right, and is it up?")
			if AnswersElsewhere(tl, t) {
				advice = fmt.Sprintf("other nodes get answers: does a NetworkPolicy, or the network of %s, keep its prober from them? --from can leave %[1]s out", t.Node)
				if t.Node == "" {
					advice = fmt.Sprintf("others get answers: does %s lead to this Service from outside of the cluster, and may this machine ask there? --from can leave outside out", t.URL)
				}
			}
			return &Problem{Text: fmt.Sprintf("baseline failed: %d of %d requests to %s failed (%s): %s", t.Failed, t.Sent, t.Name, why, advice)}
		case t.OK > 0:
		case t.NotSent > 0 || starved:
			unknown = cmp.Or(unknown, &Problem{Unknown: true, Starved: true, Text: fmt.Sprintf("baseline inconclusive for %s: within %s the prober was starved: %s. "+
				"Give it CPU, or a longer --baseline", t.Name, within, starvation(stopped, t.NotSent))})
		default:
			unknown = cmp.Or(unknown, &Problem{Unknown: true, Text: fmt.Sprintf("baseline failed: %s gave no good answer within %s: is the address right, and is it up? "+
				"If it is slow, or hardly asked at %s, give it a longer --baseline", t.Name, within, l.AskedAt)})
		}
	}
	return unknown
}

// waitsLonger reports whether the baseline goes on although a target is unknown.
func (l *Loop) waitsLonger(p *Problem) bool {
	now := l.Clock.Now()
	return l.baselines < mostBaselines || p.Starved && now < l.LongestStarved || now < l.allAsked
}

// AnswersElsewhere reports whether what one node's prober asks answers that of another node.
func AnswersElsewhere(tl *model.Timeline, t model.Target) bool {
	return slices.ContainsFunc(tl.Targets, func(other model.Target) bool {
		return other.Node != "" && other.Node != t.Node && other.Kind == t.Kind && other.Service == t.Service && other.OK > other.Failed
	})
}

// controlSilent reports whether not even the prober's own control target answered, although several requests to it
// were due.
func controlSilent(tl *model.Timeline, now time.Duration) bool {
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

// Commonest is the class of most failures; of several as common, always the same. What was our own fault is none.
func Commonest(classes map[string]int) string {
	name, most := "", 0
	for class := range timeline.NumClasses {
		if n := classes[class.String()]; class.Failed() && n > most {
			name, most = class.String(), n
		}
	}
	return name
}

// judgeHeld returns why a run must not go on whose connections do not even stand at the beginning.
func (l *Loop) judgeHeld(tl *model.Timeline) *Problem {
	for _, h := range tl.Held {
		if h.Stood > 0 {
			continue
		}
		class := Commonest(h.Failed)
		if class == "" {
			return &Problem{Unknown: true, Text: fmt.Sprintf("baseline failed: none of the %d connections of %s has been opened: give it a longer --baseline", h.Connections, h.Target)}
		}
		why := class
		if text := l.errors[errorKey{h.Target, class}]; text != "" {
			why += ": " + text
		}
		return &Problem{Text: fmt.Sprintf("baseline failed: none of the %d connections of %s stands (%s): %s", h.Connections, h.Target, why, cmp.Or(baselineHints[class], "is the address right, and is it up?"))}
	}
	return nil
}
