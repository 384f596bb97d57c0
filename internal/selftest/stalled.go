package selftest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/truth"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// A StalledProber is a run whose prober was stopped for a while, against a server without faults.
type StalledProber struct {
	From, To time.Duration // when it was stopped, on the run's clock
	Run      *model.Timeline
	ExitCode int // of its process

	Standstills []truth.Span // times in which this process did not run, and its server with it, on the run's clock
}

// stoodStill reports whether all that failed in w are requests that had no answer in time, of a server that may have
// stood still meanwhile.
func (s *StalledProber) stoodStill(w model.Window) bool {
	for class := range w.Classes {
		if class != timeline.TimeoutResponse.String() && class != timeline.TimeoutConnect.String() {
			return false
		}
	}
	return slices.ContainsFunc(s.Standstills, func(still truth.Span) bool {
		return w.Start.Earliest <= still.To && still.From <= w.End.Latest
	})
}

// over reports whether the prober had measured all that it was to measure when it was stopped: on a busy machine it
// may be stopped late.
func (s *StalledProber) over() bool {
	return slices.ContainsFunc(s.Run.Targets, func(t model.Target) bool {
		return t.Kind.Judged() && t.Measured.Latest < s.To
	})
}

// late returns what a result adds if the prober was stopped too late.
func (s *StalledProber) late() string {
	if s.over() {
		return "; it was stopped late, when it had measured all"
	}
	return ""
}

// blamesNobody requires an inconclusive result, and no window in that time, nor one in observed time at any other.
// Where the server stood still as well, it did not answer, and a window says nothing of the prober.
func (s *StalledProber) blamesNobody() Promise {
	const text = "a stalled prober makes the run inconclusive, and shows no downtime"
	p := Promise{Text: text, Outcome: Kept, unconditional: true}
	still := 0
	var blamed []string
	for _, w := range s.Run.Windows {
		from, to := w.Start.Earliest, w.End.Latest
		switch {
		case s.stoodStill(w):
			still++
		case w.Kind == model.Slow && (to < s.From || w.Start.Latest-SlowBar > s.To):
			// a busy machine answered late what the prober had sent before or after it
		case from <= s.To && s.From <= to, !unobserved(s.Run, w.Target, from, to):
			failed := cmp.Or(quantity.ClassCounts(w.Classes), "late answers")
			at := quantity.Clock(s.Run, w.Start.Latest)
			blamed = append(blamed, fmt.Sprintf("%s of %s at %s", failed, w.Target, at))
		}
	}
	switch {
	case s.over():
		p.Outcome = Undecided
	case len(blamed) > 0, still == 0 && s.ExitCode != verdict.ExitInconclusive:
		p.Outcome = Broken
	case still > 0:
		p.Outcome = Undecided
	}
	p.Found = fmt.Sprintf("stalled for %s: %s (exit %d), coverage %s",
		quantity.Span(s.To-s.From), s.Run.Verdict.Result, s.ExitCode, quantity.Coverage(s.Run.Verdict.Coverage)) +
		also(len(blamed), "windows") +
		also(still, "windows of a server that this machine made stand still") +
		s.late()
	if len(blamed) > 0 {
		p.Found += fmt.Sprintf(": %s; stopped from %s to %s",
			strings.Join(blamed, ", "), quantity.Clock(s.Run, s.From), quantity.Clock(s.Run, s.To))
	}
	return p
}

// clocksApart is how far a machine's clock and the run's may drift apart in a few seconds: a clock
// that is being adjusted runs faster or slower by 0.5 ms per second.
const clocksApart = 5 * time.Millisecond

// countsAsUnobserved requires all of the stall to be unobserved. It began before From and ended after To.
func (s *StalledProber) countsAsUnobserved() Promise {
	p := Promise{Text: "and counts all of that time as unobserved", Outcome: Undecided, unconditional: true}
	observed := time.Duration(0)
	for _, target := range s.Run.Targets {
		if !target.Kind.Judged() {
			continue
		}
		left := s.To - s.From
		for _, u := range s.Run.Unobserved {
			if u.Target == target.Name {
				left -= max(0, min(u.End, s.To)-max(u.Start, s.From))
			}
		}
		if p.Outcome == Undecided {
			p.Outcome = Kept
		}
		measured := target.Measured.Latest - target.Measured.Earliest
		if s.over() {
			p.Outcome = Undecided
		} else if left > clocksApart || target.Coverage > 1-float64(s.To-s.From-clocksApart)/float64(measured) {
			p.Outcome = Broken
		}
		observed = max(observed, left)
	}
	p.Found = fmt.Sprintf("at most %s of it counts as observed", quantity.Span(observed)) + s.late()
	return p
}
