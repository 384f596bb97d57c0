package history

import (
	"cmp"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Unknown reports whether more requests may have been lost than a run saw fail.
func (l *Line) Unknown() bool {
	return l.Sent == 0 || l.Aborted || l.Verdict == model.Inconclusive ||
		l.Verdict != model.Pass && l.Coverage < model.MinCoverage // a gate that failed comes before that doubt
}

// Same reports whether one of two runs of a Service measured its disruption mostly while the other one did. What a run
// shows from before its first sign may be of the time of another disruption.
func (l *Line) Same(o *Line) bool {
	return timeline.Overlap(l.T0.Add(l.Baseline), l.T0.Add(l.Duration), o.T0.Add(o.Baseline), o.T0.Add(o.Duration))
}

// Worse compares what two runs say of the same disruption: it is negative if a says worse than b, and so counts.
func Worse(a, b *Line) int {
	rank := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(b.Failed, a.Failed),
		rank(a.Unknown())-rank(b.Unknown()),
		rank(b.Verdict == model.Fail)-rank(a.Verdict == model.Fail)) // by what no failed request shows, as a latency
}

// Covers reports whether a line says as much as another one of the same Service, as of two guards that measured the
// same disruption.
func (l *Line) Covers(o *Line) bool {
	return l.Service != "" && l.Service == o.Service && l.Same(o) && Worse(l, o) <= 0
}
