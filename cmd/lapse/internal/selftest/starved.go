package selftest

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
)

// Starved is a run whose prober was stopped for a while, of a server with which nothing was wrong.
type Starved struct {
	From, To time.Duration // when it was stopped, on the run's clock
	Run      *model.Timeline
	ExitCode int // of its process
}

// blamesNobody wants it to be inconclusive, without a window in that time.
func (s *Starved) blamesNobody() Promise {
	p := Promise{Text: "a prober that was stopped says so, and blames nobody", Outcome: Kept, always: true}
	blamed, elsewhere := 0, 0
	for _, w := range s.Run.Windows {
		switch {
		case w.Start.Earliest <= s.To && s.From <= w.End.Latest, !dark(s.Run, w.Target, w.Start.Earliest, w.End.Latest):
			blamed++
		default:
			elsewhere++
		}
	}
	if blamed > 0 || s.ExitCode != verdict.ExitInconclusive {
		p.Outcome = Broken
	}
	p.Found = fmt.Sprintf("stopped for %v: %s (exit %d), coverage %.1f %%, %d windows", (s.To - s.From).Round(time.Millisecond),
		s.Run.Verdict.Result, s.ExitCode, 100*s.Run.Verdict.Coverage, blamed+elsewhere)
	return p
}

// unobserved wants a run that was stopped to know when. The stop began before From, and ended after To: all of the time between was
// unobserved, as far as the clock it is told by agrees with the run's.
func (s *Starved) unobserved() Promise {
	c := &check{text: "and counts all of that time as unobserved, in its coverage too", things: "targets"}
	seen, coverage, left := time.Duration(0), 1.0, 1.0
	for _, target := range s.Run.Targets {
		if !target.Kind.Judged() {
			continue
		}
		missing := s.To - s.From
		for _, u := range s.Run.Unobserved {
			if u.Target == target.Name {
				missing -= max(0, min(u.End, s.To)-max(u.Start, s.From))
			}
		}
		c.judge(missing <= clocksApart && covers(target, s.Run), Wrong{})
		seen, coverage, left = max(seen, missing), min(coverage, target.Coverage), min(left, observed(target, s.Run))
	}
	c.also = fmt.Sprintf("; at most %s of it counts as observed; coverage %.1f %%, by what is unobserved %.1f %%", short(seen), 100*coverage, 100*left)
	p := c.promise()
	p.always = true
	return p
}

// clocksApart is how far two readings of a machine's clock may be apart from the run's after a few seconds: a clock that is being
// adjusted runs faster or slower by 0.5 ms per second.
const clocksApart = 5 * time.Millisecond
