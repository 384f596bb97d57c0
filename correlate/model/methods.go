package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Unbounded is the Earliest of an event that nothing bounds from below: it may lie any time before
// the run, as the creation of a Pod that was there when we first looked. It is the smallest instant
// every JSON reader holds exactly (-2^53+1 ns).
const Unbounded = time.Duration(-1<<53 + 1)

// Never is later than every instant of a run.
const Never = time.Duration(math.MaxInt64)

// Overlaps reports whether two brackets can hold the same instant.
func (a Instant) Overlaps(b Instant) bool { return a.Earliest <= b.Latest && b.Earliest <= a.Latest }

// Bounded reports whether something bounds the instant from below.
func (a Instant) Bounded() bool { return a.Earliest > Unbounded }

// Distance returns how far an instant lies from the bracket; 0 within it.
func (a Instant) Distance(t time.Duration) time.Duration {
	return max(0, a.Earliest-t, t-a.Latest)
}

// Span returns all the time a window can have taken.
func (w *Window) Span() Instant { return Instant{Earliest: w.Start.Earliest, Latest: w.End.Latest} }

// IsOpen reports whether an end of the window was not observed.
func (w *Window) IsOpen() bool { return w.Open.Start || w.Open.End }

// Longer bounds the longer of two lengths: it is at least as long as either is at least.
func Longer(a *Length, b Length) *Length {
	if a == nil {
		return &b
	}
	return &Length{Min: max(a.Min, b.Min), Max: max(a.Max, b.Max)}
}

// Length returns r as a length of time.
func (r Range) Length() Length {
	return Length{Min: time.Duration(r.Min), Max: time.Duration(r.Max)}
}

// AtMost returns the upper end of r.
func (r Range) AtMost() float64 {
	if r.Open {
		return math.Inf(1)
	}
	return r.Max
}

// Code returns what a container or the command ended with, and 0 where that is not known.
func (e *Event) Code() int {
	if e.ExitCode == nil {
		return 0
	}
	return *e.ExitCode
}

// Judged returns the targets that count.
func (tl *Timeline) Judged() []Target {
	return slices.DeleteFunc(slices.Clone(tl.Targets), func(t Target) bool { return !t.Kind.Judged() })
}

// Receiver returns the Service, or the URL, that the target sends to: the beginning of its name where it says neither.
func (t *Target) Receiver() string {
	name, _, _ := strings.Cut(t.Name, " "+string(t.Kind))
	return cmp.Or(t.Service, name)
}

// MostHarmful returns incidents by downtime, the longest first.
func MostHarmful(incidents []Incident) []Incident {
	return slices.SortedStableFunc(slices.Values(incidents), func(a, b Incident) int {
		return cmp.Or(
			cmp.Compare(b.Downtime.Max, a.Downtime.Max),
			cmp.Compare(b.Failed, a.Failed),
			cmp.Compare(b.Cut, a.Cut),
			cmp.Compare(b.Slow, a.Slow),
		)
	})
}

// Name returns what a cause is called: its rule, or the reason of one that no rule explains.
func (c *Cause) Name() string {
	if c.Rule == Unexplained && c.Reason != "" {
		return c.Reason
	}
	return c.Rule
}

// ServiceCoverage returns the share of the time in which the target's Service was observed, by this target or by
// another source's that sends the same.
func (t *Target) ServiceCoverage() float64 {
	if t.SharedCoverage != nil {
		return *t.SharedCoverage
	}
	return t.Coverage
}

// Measured reports whether any request had a result that counts, or any held connection stood.
func (tl *Timeline) Measured() bool {
	return tl.Verdict.Sent > 0 || slices.ContainsFunc(tl.Held, func(h Held) bool { return h.Stood > 0 })
}

// LimitSince returns the detection limit of the time since the judged targets' rates were changed, and when the last of
// them was; ok is false if that limit is no better than that of the whole run.
func (tl *Timeline) LimitSince() (limit, since time.Duration, ok bool) {
	var always time.Duration
	for i := range tl.Targets {
		t := &tl.Targets[i]
		if !t.Kind.Judged() {
			continue
		}
		always = max(always, t.Resolution)
		if t.Rerated == nil {
			limit = max(limit, t.Resolution)
			continue
		}
		limit, since = max(limit, t.Rerated.Resolution), max(since, t.Rerated.At.Latest)
	}
	return limit, since, since > 0 && limit < always
}

// RateAt returns the requests per second that were asked for at an instant of the run: before the last change of the
// rate, the lowest of that time.
func (t *Target) RateAt(at time.Duration) float64 {
	if t.Rerated != nil && at < t.Rerated.At.Latest {
		return t.Rerated.From
	}
	return t.Rate
}

// MinCoverage is the share of the measured time that must have been observed for a run to pass, if --min-coverage
// does not say otherwise: unobserved time does not count as healthy.
const MinCoverage = 0.99

// MinCoverage returns the share of the measured time that must have been observed for this run to pass.
func (tl *Timeline) MinCoverage() float64 { return cmp.Or(tl.Run.MinCoverage, MinCoverage) }

// MinNodeCoverage returns the share of the measured time that each node of --from must have observed for this run to
// pass.
func (tl *Timeline) MinNodeCoverage() float64 {
	if tl.Run.MinNodeCoverage != nil {
		return *tl.Run.MinNodeCoverage
	}
	return tl.MinCoverage()
}

// ShortNodes returns the nodes that observed too little for this run to pass.
func (tl *Timeline) ShortNodes() []NodeCoverage {
	least := tl.MinNodeCoverage()
	n := 0
	for n < len(tl.Verdict.Nodes) && tl.Verdict.Nodes[n].Coverage < least {
		n++
	}
	return tl.Verdict.Nodes[:n]
}

// TooLittle reports whether so little was observed that the run cannot pass: in all, or from a node.
func (tl *Timeline) TooLittle() bool {
	return tl.Verdict.Coverage < tl.MinCoverage() || len(tl.ShortNodes()) > 0
}

// TerminatingBy reports whether the Pod was asked to end, or seen ending, no later than instant t.
func (p *Pod) TerminatingBy(t time.Duration) bool {
	if p.Deleted != nil && p.Deleted.Earliest <= t {
		return true
	}
	for _, state := range p.States {
		if strings.HasPrefix(state.State, "terminating") {
			return state.Start <= t
		}
	}
	return false
}

// Left reports whether the Pod is watched no more: it is gone, or no Service selects it.
func (p *Pod) Left() bool {
	last := len(p.States) - 1
	return p.Gone != nil || last >= 0 && p.States[last].State == "gone"
}

// LeftNode reports whether a Pod ended because it had to leave its node. A drain without evictions deletes Pods: then
// Of is the node.
func (e *Ending) LeftNode() bool {
	if e == nil {
		return false
	}
	switch e.By {
	case ByEviction, ByTaint, ByCollector, ByKubelet:
		return true
	}
	return e.Of != nil && e.Of.Kind == "Node"
}

// ReadyBy reports whether the Pod was ready at instant t, as far as its lane tells.
func (p *Pod) ReadyBy(t time.Duration) bool {
	ready := false
	for _, state := range p.States {
		if state.Start <= t {
			ready = state.State == "ready"
		}
	}
	return ready
}

// ReadyWithin reports whether the Pod was ready at some time between two instants, as far as its lane tells.
func (p *Pod) ReadyWithin(from, to time.Duration) bool {
	for i, state := range p.States {
		end := Never
		if i+1 < len(p.States) {
			end = p.States[i+1].Start
		}
		if state.State == "ready" && state.Start < to && from < end {
			return true
		}
	}
	return false
}

// MostReady returns the largest number of endpoints that were ready at one time between two instants.
func MostReady(steps []EndpointStep, from, to time.Duration) int {
	before, most := 0, 0
	for _, step := range steps {
		switch {
		case step.At.Latest < from:
			before = step.Ready
		case step.At.Latest <= to:
			most = max(most, step.Ready)
		}
	}
	return max(before, most)
}

// Trouble says how the command went wrong in a run that is over; "" if it did not, or if there was none.
func (c *Command) Trouble() string {
	switch {
	case c == nil:
		return ""
	case c.Start == nil:
		return "never started"
	case c.ExitCode != nil && *c.ExitCode != 0:
		return fmt.Sprintf("exit code %d", *c.ExitCode)
	case c.End == nil:
		return "did not end"
	}
	return ""
}
