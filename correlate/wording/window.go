package wording

import (
	"fmt"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says of a window how long it took, what failed, and which end of it was not observed.

// lasted says how long a window took. One whose end was not observed is still no longer than what is known to be well
// beyond. Requests that were cut in flight all failed at one instant, however long they had been under way.
func lasted(w *model.Window) string {
	if w.Cut != nil && w.Kind != model.CutKind {
		return "at once"
	}
	if w.IsOpen() && w.Most != nil {
		return quantity.Length(model.Length{Min: w.Length.Min, Max: w.Most.Length}, false)
	}
	return quantity.Length(w.Length, w.IsOpen())
}

// downtime says how much downtime a window amounts to: in one where a share failed, that share of its length; "" of
// slow answers.
func downtime(w *model.Window) string {
	switch {
	case w.Kind == model.Slow:
		return ""
	case w.IsOpen() && w.Most != nil:
		return quantity.Length(model.Length{Min: w.Downtime.Min, Max: w.Most.Downtime}, false)
	}
	return quantity.Length(w.Downtime, w.IsOpen())
}

// Requests says how many of a window's requests it is about: "64/128 failed", "9/260 slow".
func Requests(w *model.Window) string {
	if w.Kind == model.Slow {
		return fmt.Sprintf("%d/%d slow", w.Slow, w.Sent)
	}
	return fmt.Sprintf("%d/%d failed", w.Failed, w.Sent)
}

// Errors says how a window's requests failed.
func Errors(w *model.Window) string {
	if w.Kind == model.Slow {
		return late
	}
	return Classes(w.Classes)
}

// late is what is wrong with slow answers.
const late = "answered late"

// Classes names the classes of requests, the most frequent first. A single one has no number: another column has it.
func Classes(classes map[string]int) string {
	if len(classes) == 1 {
		for name := range classes {
			return name
		}
	}
	return quantity.ClassCounts(classes)
}

// edges says which end of a window was not observed, and why; "" if both were.
func (s *scene) edges(w *model.Window) string {
	if !w.IsOpen() {
		return ""
	}
	failing := "failing"
	if w.Kind == model.Slow {
		failing = "slow"
	}
	var parts []string
	target := s.targets[w.Target]
	answered := func(from, to time.Duration) bool { return w.Kind != model.Slow && s.answeredIn(w.Target, from, to) }
	if w.Open.Start {
		text := "its start was not observed" + s.whyNot(w.Target, w.Start)
		switch {
		case target == nil || w.Start.Earliest > target.Measured.Earliest:
		case answered(0, w.Start.Latest):
			text = "when it began is not known: too few requests were answered before"
		default:
			text = "already " + failing + " when measuring began"
		}
		parts = append(parts, text)
	}
	if w.Open.End {
		text := "its end was not observed" + s.whyNot(w.Target, w.End)
		switch {
		case s.tl.Run.Live:
			text = "still " + failing
		case target == nil || w.End.Latest < target.Measured.Latest:
		case answered(w.End.Earliest, w.End.Latest):
			text = "when it ended is not known: too few requests were answered after"
		default:
			text = "still " + failing + " when measuring ended"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// answeredIn reports whether requests to a target that were sent between two instants were answered well: in a slot of
// its series that lies wholly between them.
func (s *scene) answeredIn(target string, from, to time.Duration) bool {
	series, _ := s.tl.Buckets.Of(target)
	width := s.tl.Buckets.Width
	for i := range series.Sent {
		start := time.Duration(series.Start+i) * width
		if start >= from && start+width <= to && series.Sent[i] > series.Failed[i] {
			return true
		}
	}
	return false
}

// whyNot says what kept the prober from observing an end of a window, which lies somewhere in at or beyond it.
func (s *scene) whyNot(target string, at model.Instant) string {
	for _, u := range s.unobserved[target] {
		if u.Start <= at.Latest && u.End >= at.Earliest {
			return fmt.Sprintf(" (%s, %s)", Unobserved(u.Reason), quantity.Span(u.End-u.Start))
		}
	}
	return ""
}

// Why time was not observed, in words.
const (
	ProberStalled = "prober stalled"       // the prober was late with a request, or did not run at all
	ProberFailed  = "prober failed itself" // it could not make requests
)

// Unobserved says why time was not observed, in one word for one thing.
func Unobserved(reason string) string {
	switch reason {
	case model.ReasonNotSent:
		return ProberStalled
	case model.ReasonLocal:
		return ProberFailed
	}
	return reason
}
