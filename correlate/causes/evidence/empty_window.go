package evidence

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// EmptyIn returns the time without an endpoint to route to that explains the window. If there is none, it returns nil
// and says why.
func (v *Addresses) EmptyIn(w *model.Window) (span *EmptySpan, whyNot string) {
	if w.Kind == model.Slow {
		return nil, "requests were answered, only late"
	}
	span = EmptyNear(v.services, w)
	if span == nil {
		return nil, "an endpoint was ready, or terminating and still serving, all the time"
	}
	if last := WhenLastLeft(v, w, span); !last.Overlaps(v.traffic.Onset(w)) {
		return nil, fmt.Sprintf("no endpoint was ready %s, but requests began to fail %s",
			quantity.Between(v.Run, span.Whole()), quantity.Between(v.Run, w.Start))
	}
	if why := AnsweredMeanwhile(w, span); why != "" {
		return nil, why
	}
	return span, ""
}

// WhenLastLeft returns when a window must open for the empty span to explain it: from when the last Pod began to end
// (it may stop before its endpoint says so) to the end of the span.
func WhenLastLeft(v *Addresses, w *model.Window, empty *EmptySpan) model.Instant {
	from := empty.Whole()
	if gone := v.services.Deleted(w); gone != nil {
		from.Earliest = min(from.Earliest, gone.At.Earliest)
	}
	for _, p := range v.services.Pods(w) {
		if p.UID != empty.Last.Object.UID {
			continue
		}
		stopped := v.Probe(w, p).Stopped
		for _, sign := range []*model.Instant{p.Deleted, stopped, p.EndpointNotReady} {
			if sign != nil && (sign != stopped || v.endsAs(p, *stopped, empty.Start.Latest)) {
				from.Earliest = min(from.Earliest, sign.Earliest)
			}
		}
	}
	return from
}

// endsAs reports whether a Pod stopped because it ended: it was asked to, a container of it ended, or its node was
// found to be lost until its endpoint had left. One that runs on fails by itself, whether its endpoint leaves or not.
func (v *Addresses) endsAs(p *model.Pod, stopped model.Instant, left time.Duration) bool {
	return p.TerminatingBy(stopped.Latest) || p.Killing != nil && p.Killing.Earliest <= stopped.Latest ||
		v.changes.EndedItself(p, stopped) != nil ||
		v.changes.NodeLost(p.Node, model.Instant{Earliest: stopped.Earliest, Latest: left}) != nil
}

// AnsweredMeanwhile says why the empty span does not explain the window: requests were answered. It returns "" if it
// does.
func AnsweredMeanwhile(w *model.Window, empty *EmptySpan) string {
	if w.Kind == model.Outage {
		return ""
	}
	certain := common(model.Instant{Earliest: empty.Start.Latest, Latest: empty.End.Earliest}, w.Span())
	if w.Blackout == nil || w.Blackout.Max < certain/2 {
		return "requests were answered while no endpoint was ready"
	}
	return ""
}
