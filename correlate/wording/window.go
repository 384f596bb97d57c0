package wording

import (
	"fmt"
	"math"
	"slices"
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
	return joined("; ", s.startEdge(w).String(), s.endEdge(w).String())
}

// An edge says that an end of a window was not observed; empty if it was.
type edge struct {
	text   string
	reason string // what kept the prober from observing it; "" if nothing did
	gap    time.Duration
}

func (e edge) String() string {
	if e.reason == "" {
		return e.text
	}
	return fmt.Sprintf("%s (%s, %s)", e.text, e.reason, quantity.Span(e.gap))
}

func (s *scene) startEdge(w *model.Window) edge {
	switch target := s.targets[w.Target]; {
	case !w.Open.Start:
		return edge{}
	case target == nil || w.Start.Earliest > target.Measured.Earliest:
		return s.unobservedAt("its start", w.Target, w.Start)
	case w.Kind != model.Slow && s.answeredIn(w.Target, 0, w.Start.Latest):
		return edge{text: "when it began is not known, too few requests were answered before"}
	}
	return edge{text: "already " + failing(w) + " when measuring began"}
}

func (s *scene) endEdge(w *model.Window) edge {
	switch target := s.targets[w.Target]; {
	case !w.Open.End:
		return edge{}
	case s.tl.Run.Live:
		return edge{text: still + failing(w)}
	case target == nil || w.End.Latest < target.Measured.Latest:
		return s.unobservedAt("its end", w.Target, w.End)
	case w.Kind != model.Slow && s.answeredIn(w.Target, w.End.Earliest, w.End.Latest):
		return edge{text: "when it ended is not known, too few requests were answered after"}
	}
	return edge{text: still + failing(w) + " when measuring ended"}
}

// still begins what is said of a window that had not ended when measuring did.
const still = "still "

func failing(w *model.Window) string {
	if w.Kind == model.Slow {
		return "slow"
	}
	return "failing"
}

// unobservedAt says that an end of a window, which lies somewhere in at or beyond it, was not observed, and what kept
// the prober from it.
func (s *scene) unobservedAt(which, target string, at model.Instant) edge {
	e := edge{text: which + " was not observed"}
	for _, u := range s.unobserved[target] {
		if u.Start <= at.Latest && u.End >= at.Earliest {
			e.reason, e.gap = Unobserved(u.Reason), u.End-u.Start
			break
		}
	}
	return e
}

// joined joins the parts that are not empty.
func joined(by string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), by)
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

// answeredAfter reports whether it is known that the target of a window was answered well after it. What is known of
// held connections says itself whether they are back.
func (s *scene) answeredAfter(w *model.Window) bool {
	return !w.Open.End || w.Kind == model.CutKind || s.answeredIn(w.Target, w.End.Latest, math.MaxInt64)
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
