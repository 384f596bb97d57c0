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

const (
	// mostBaselines is how many baselines a run waits for a target of which nothing is known yet.
	mostBaselines = 4
	// mostStarved is the longest wait while the prober itself does not run.
	mostStarved = 10 * time.Second
)

// A problem is the reason why a run must not go on after its baseline.
type problem struct {
	text    string
	unknown bool // no request has ended: the prober was stopped, or the target is slow
	starved bool // the prober was stopped
}

// judgeBaseline returns nil if the run may go on. A target is well if it answered at least half of the requests that
// have ended, and at least one: with a timeout longer than the baseline, none has failed yet. Without a baseline every
// target is well.
func judgeBaseline(l *Loop) *problem {
	now := l.Clock.Now()
	tl := l.Live.Tracker.Brief()
	within, stopped := quantity.Span(now.Round(10*time.Millisecond)), stoppedFor(tl)
	starved := stopped*2 > now || controlSilent(tl, now)
	var unknown *problem // of the first such target
	if l.Baseline > 0 {
		if unknown = judgeHeld(l, tl); unknown != nil && !unknown.unknown {
			return unknown
		}
	}
	for _, t := range tl.Targets {
		switch {
		case !t.Kind.Judged(), l.Baseline == 0:
		case t.Failed*2 > t.Sent:
			why, advice := l.failure(t.Name, Commonest(t.Classes))
			if answersElsewhere(tl, t) {
				advice = fmt.Sprintf(elsewhereFromNodes, t.Node)
				if t.Node == "" {
					advice = fmt.Sprintf(elsewhereFromOutside, t.URL)
				}
			}
			const failed = "baseline failed: %d of %d requests to %s failed (%s): %s"
			return &problem{text: fmt.Sprintf(failed, t.Failed, t.Sent, t.Name, why, advice)}
		case t.OK > 0:
		case t.NotSent > 0 || starved:
			text := fmt.Sprintf(inconclusive, t.Name, within, starvation(stopped, t.NotSent))
			unknown = cmp.Or(unknown, &problem{unknown: true, starved: true, text: text})
		default:
			text := fmt.Sprintf(unanswered, t.Name, within, l.AskedAt)
			unknown = cmp.Or(unknown, &problem{unknown: true, text: text})
		}
	}
	return unknown
}

// failure says how requests to a target failed in a class, and what to check first.
func (l *Loop) failure(target, class string) (why, advice string) {
	why = class
	if text := l.errors[errorKey{target, class}]; text != "" {
		why += ": " + text
	}
	return why, cmp.Or(baselineHints[class], anyHint)
}

// waitsLonger reports whether the baseline goes on although a target is unknown.
func (l *Loop) waitsLonger(p *problem) bool {
	now := l.Clock.Now()
	return l.baselines < mostBaselines || p.starved && now < l.longestStarved || now < l.allAsked
}

// answersElsewhere reports whether the Service of a target answers the prober of another node.
func answersElsewhere(tl *model.Timeline, t model.Target) bool {
	return slices.ContainsFunc(tl.Targets, func(other model.Target) bool {
		elsewhere := other.Node != "" && other.Node != t.Node
		return elsewhere && other.Kind == t.Kind && other.Service == t.Service && other.OK > other.Failed
	})
}

// Texts about targets that are not well after the baseline.
const (
	elsewhereFromNodes = "other nodes get answers: does a NetworkPolicy, or the network of %s, " +
		"keep its prober from them? --from can leave %[1]s out"
	elsewhereFromOutside = "others get answers: does %s lead to this Service from outside of the cluster, " +
		"and may this machine ask there? --from can leave outside out"
	inconclusive = "baseline inconclusive for %s: within %s the prober was starved: %s. " +
		"Give it CPU, or a longer --baseline"
	unopened   = "baseline failed: none of the %d connections of %s has been opened: give it a longer --baseline"
	unanswered = "baseline failed: %s gave no good answer within %s: is the address right, and is it up? " +
		"If it is slow, or hardly asked at %s, give it a longer --baseline"
)

// controlSilent reports whether not even the prober's own control target answered, although several requests to it
// were due.
func controlSilent(tl *model.Timeline, now time.Duration) bool {
	return slices.ContainsFunc(tl.Targets, func(t model.Target) bool {
		return t.Kind == timeline.Control && t.OK == 0 && t.Rate*now.Seconds() >= 3
	})
}

// starvation says how it shows that the prober hardly ran.
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

// stoppedFor returns how long the prober was stopped so far.
func stoppedFor(tl *model.Timeline) (length time.Duration) {
	for _, e := range tl.Events {
		if e.Kind == timeline.ProberStall {
			length += e.At.Latest - e.At.Earliest
		}
	}
	return length
}

// baselineHints say what to check first if requests fail in these ways from the beginning.
var baselineHints = map[string]string{
	timeline.DNS.String():     "is the name right?",
	timeline.TLS.String():     "--ca-file says whom to trust, --host which name to ask for",
	timeline.HTTP4xx.String(): statusHint,
	timeline.HTTP5xx.String(): statusHint,
	timeline.Body.String():    "--expect-status and --expect-body say what a good answer is",
}

const anyHint = "is the address right, and is it up?"

const statusHint = "check the path, --header, --host and --method; if that is a good answer, --expect-status says so"

// Commonest returns the class of most failures. Failures of this process do not count.
func Commonest(classes map[string]int) string {
	name, most := "", 0
	for class := range timeline.NumClasses {
		if n := classes[class.String()]; class.Failed() && n > most {
			name, most = class.String(), n
		}
	}
	return name
}

// judgeHeld returns why the run must not go on if no connection of a held target is open.
func judgeHeld(l *Loop, tl *model.Timeline) *problem {
	for _, h := range tl.Held {
		if h.Stood > 0 {
			continue
		}
		class := Commonest(h.Failed)
		if class == "" {
			return &problem{unknown: true, text: fmt.Sprintf(unopened, h.Connections, h.Target)}
		}
		const failed = "baseline failed: none of the %d connections of %s stands (%s): %s"
		why, advice := l.failure(h.Target, class)
		return &problem{text: fmt.Sprintf(failed, h.Connections, h.Target, why, advice)}
	}
	return nil
}
