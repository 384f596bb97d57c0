package run

import (
	"cmp"
	"fmt"

	"lapse/timeline"
)

// baselineProblem says why a run must not go on after its baseline, or "". A target is well that answered at least half of the requests
// that are over, and one of them at least: where answers are awaited for longer than the baseline lasts, none has failed yet. Without a baseline nobody wants to know.
func (m *measurement) baselineProblem() string {
	m.absorb()
	for _, t := range m.live.tracker.Brief().Targets {
		switch {
		case !t.Kind.Judged(), m.opts.Baseline == 0:
		case t.Failed*2 > t.Sent:
			class := commonest(t.Classes)
			why := class
			if text := m.errors[errorKey{t.Name, class}]; text != "" {
				why += ": " + text
			}
			return fmt.Sprintf("baseline failed: %d of %d requests to %s failed (%s): %s",
				t.Failed, t.Sent, t.Name, why, cmp.Or(baselineHints[class], "is the address right, and is it up?"))
		case t.OK == 0 && t.NotSent > 0:
			return fmt.Sprintf("baseline inconclusive for %s: within %v the prober was starved, and %d requests were not sent, or failed locally. "+
				"Give it CPU, or a longer --baseline", t.Name, m.opts.Baseline, t.NotSent)
		case t.OK == 0:
			return fmt.Sprintf("baseline failed: %s gave no good answer within %v: is the address right, and is it up? "+
				"If it is slow, or hardly asked at --rate %v, give it a longer --baseline", t.Name, m.opts.Baseline, m.opts.Rate)
		}
	}
	return ""
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
