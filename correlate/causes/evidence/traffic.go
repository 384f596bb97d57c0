package evidence

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// Traffic is the run's targets and the requests to them.
type Traffic struct {
	*Input
	Targets   map[string]*model.Target   // by name
	Errors    []*model.Event             // texts of failures
	direct    map[string][]*model.Target // the direct ones, by the UID of their Pod
	failures  map[string][]model.Failure // by target, by Sent
	frontends map[timeline.TargetID]frontend
}

func newTraffic(s *Input) *Traffic {
	v := &Traffic{
		Input:     s,
		Targets:   make(map[string]*model.Target, len(s.Run.Targets)),
		direct:    map[string][]*model.Target{},
		failures:  map[string][]model.Failure{},
		frontends: map[timeline.TargetID]frontend{},
	}
	for i := range s.Run.Targets {
		t := &s.Run.Targets[i]
		v.Targets[t.Name] = t
		if t.Kind == timeline.Direct {
			v.direct[t.PodUID] = append(v.direct[t.PodUID], t)
		}
	}
	for _, f := range s.Run.Failures {
		v.failures[f.Target] = append(v.failures[f.Target], f)
	}
	return v
}

// Target returns the judged target of a window.
func (v *Traffic) Target(w *model.Window) *model.Target { return v.TargetNamed(w.Target) }

func (v *Traffic) TargetNamed(name string) *model.Target {
	if t := v.Targets[name]; t != nil {
		return t
	}
	return &model.Target{Target: timeline.Target{Name: name}}
}

// frontend returns what t sends to.
func (v *Traffic) frontend(t *model.Target) frontend {
	f, known := v.frontends[t.ID]
	if !known {
		f = frontendOf(t)
		v.frontends[t.ID] = f
	}
	return f
}

// Measured returns what is known of t in addition to what is published; nothing if there is no such target.
func (v *Traffic) Measured(t *model.Target) *Probed {
	if t == nil || v.Probed[t.ID] == nil {
		return &Probed{}
	}
	return v.Probed[t.ID]
}

// Interval returns the time between two requests to t at the rate of an instant of the run; 0 if that is not known.
func (v *Traffic) Interval(t *model.Target, at time.Duration) time.Duration {
	if rates := v.Measured(t).Rates; rates != nil {
		return rates.At(at)
	}
	return t.Interval()
}

// Uses returns how long n requests to t took at the rate of an instant of the run; 0 if that is not known.
func (v *Traffic) Uses(t *model.Target, n int, at time.Duration) time.Duration {
	return time.Duration(n) * v.Interval(t, at)
}

// ErrorsOf returns the different texts of the window's target and classes that had been seen by its end.
func (v *Traffic) ErrorsOf(w *model.Window) (texts []model.ErrorText) {
	for _, e := range v.Errors {
		if e.Object.Name != w.Target || w.Classes[e.To] == 0 || e.At.Earliest > w.End.Latest {
			continue
		}
		text, _, _ := strings.Cut(e.Detail, ": current time ") // as crypto/x509 says of an expired certificate
		if !slices.ContainsFunc(texts, func(t model.ErrorText) bool { return t.Class == e.To && t.Text == text }) {
			texts = append(texts, model.ErrorText{Class: e.To, Text: text, First: e.At})
		}
	}
	return texts
}

// From says where a window was seen from: the prober's node, or the machine Lapse ran on.
func (v *Traffic) From(w *model.Window) string {
	if node := v.Target(w).Node; node != "" {
		return node
	}
	return "the prober's machine"
}

// Onset returns when the window's trouble can have begun: its start bracket, and where that is open, the
// unobserved time before it too.
func (v *Traffic) Onset(w *model.Window) model.Instant {
	onset := w.Start
	// each cut has a bracket as long as a heartbeat, but what is closed or reset is noticed at once
	if w.Kind == model.CutKind {
		onset = model.Instant{Earliest: w.Start.Latest, Latest: w.Start.Latest}
		if w.Cut != nil {
			onset = *w.Cut
		}
		return onset
	}
	if !w.Open.Start {
		return onset
	}
	onset.Earliest = model.Unbounded // no success was ever seen before
	for _, gap := range v.Run.Unobserved {
		if gap.Target == w.Target && gap.Start <= w.Start.Earliest && w.Start.Earliest <= gap.End {
			onset.Earliest = max(onset.Earliest, gap.Start)
		}
	}
	return onset
}

// OutageNear returns a target's outage that overlaps the bracket, nil if there is none.
func (v *Traffic) OutageNear(target string, at model.Instant) *model.Window {
	return v.TroubleNear(target, at, false)
}

// TroubleNear is OutageNear that can count slow answers, too.
func (v *Traffic) TroubleNear(target string, at model.Instant, slow bool) *model.Window {
	for i, w := range v.Measured(v.Targets[target]).Outages {
		if (slow || w.Kind != model.Slow) && w.Span().Overlaps(at) {
			return &v.Measured(v.Targets[target]).Outages[i]
		}
	}
	return nil
}

// Unwell returns how long the prober can be shown to have been unwell in an outage of its control target: at most from
// when the first failed or late request was sent until the last had ended. Where the target is seldom asked, the outage
// may have been much shorter than its Length.Max.
func (v *Traffic) Unwell(control string, outage *model.Window) time.Duration {
	first, last := model.Never, time.Duration(0)
	for _, at := range v.Measured(v.Targets[control]).Unwell {
		if at.Overlaps(outage.Span()) {
			first, last = min(first, at.Earliest), max(last, at.Latest)
		}
	}
	return max(0, min(last-first, outage.Length.Max))
}

// Only reports whether all the failures are of these classes.
func Only(failures map[string]int, classes ...timeline.Class) bool {
	for class, n := range failures {
		if n > 0 && !slices.ContainsFunc(classes, func(c timeline.Class) bool { return c.String() == class }) {
			return false
		}
	}
	return true
}

// Count counts the failures of these classes.
func Count(failures map[string]int, classes ...timeline.Class) int {
	n := 0
	for _, class := range classes {
		n += failures[class.String()]
	}
	return n
}

// Length returns the time between two brackets.
func Length(from, to model.Instant) model.Length {
	return model.Length{Min: max(0, to.Earliest-from.Latest), Max: max(0, to.Latest-from.Earliest)}
}

// common returns the time two stretches share, at most.
func common(a, b model.Instant) time.Duration {
	return max(0, min(a.Latest, b.Latest)-max(a.Earliest, b.Earliest))
}

// Failures returns the failures of a window, by Sent. If the list is capped, it has the first and the last for the
// rest.
func (v *Traffic) Failures(w *model.Window) []model.Failure {
	list := v.failures[w.Target]
	after := func(at time.Duration) int {
		i, _ := slices.BinarySearchFunc(list, at+1, func(f model.Failure, t time.Duration) int {
			return cmp.Compare(f.Earliest(), t)
		})
		return i
	}
	end := w.End.Earliest // the last was sent then, or later if it waited for a connection
	if Count(w.Classes, timeline.NoSlot) > 0 {
		end = w.End.Latest
	}
	to := after(end)
	list = list[max(min(after(w.Start.Earliest-1), to), to-w.Failed):to]
	if len(list) < w.Failed && Only(w.Classes, timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable) {
		first, last := w.Start.Latest, max(w.Start.Latest, w.End.Earliest)
		list = slices.Clip(list)
		if len(list) == 0 {
			list = append(list, model.Failure{Target: w.Target, Sent: first, Done: first, Class: timeline.Refused})
		}
		list = append(list, model.Failure{Target: w.Target, Sent: last, Done: last, Class: timeline.Refused})
	}
	return list
}

// End returns how far the run has come.
func (v *Traffic) End() time.Duration {
	end := v.Run.Run.Duration
	for _, e := range v.Run.Events {
		end = max(end, e.Seen)
	}
	for _, w := range v.Run.Windows {
		end = max(end, w.End.Latest)
	}
	return end
}

// AnsweredByNobody counts the window's failures that are answers with a status of 500 or more, and carry no Pod's name.
func (v *Traffic) AnsweredByNobody(w *model.Window) (n int) {
	for _, f := range v.Failures(w) {
		if f.Class == timeline.HTTP5xx && f.Backend == "" {
			n++
		}
	}
	return n
}

// unconnected are the classes of requests that got no connection.
var unconnected = []timeline.Class{timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable}

// CutClasses are the classes of requests whose connection ended before the answer was complete.
var CutClasses = []timeline.Class{timeline.Reset, timeline.EOF, timeline.Body}

// CutIn reports whether a failed request was cut within a bracket.
func CutIn(f *model.Failure, in model.Instant) bool {
	return slices.Contains(CutClasses, f.Class) && f.Latest() >= in.Earliest && f.Done-f.Error <= in.Latest
}

// NearlyAll is the share of failed requests from which on an address counts as not answering at all. The rest allows
// for requests in flight.
const NearlyAll = 0.9

// Moment is how long after a Pod stopped listening the connections it had accepted may be reset.
const Moment = 100 * time.Millisecond

// apart is the largest distance between windows of one episode: the default distance of runs of failures in one window.
const apart = time.Second

// NextUse returns the number of requests after which each of a target's connections has been used.
func NextUse(t *model.Target) int { return cmp.Or(t.Connections, usualConnections) + 1 }

// usualConnections is the number of persistent connections if a recording does not say.
const usualConnections = 10

// Arrived returns when the first packet of a request that got no connection had arrived at the latest, or was lost.
func Arrived(f *model.Failure) time.Duration {
	return windows.Arrival(f.Class, f.Sent, f.Done) + f.Error
}

// underWay returns how many requests to a direct target can have been under way at one time while it answered. What it
// says of its rate is that of its start.
func (v *Traffic) underWay(target string) int {
	t := v.Targets[target]
	densest := v.Measured(t).Densest
	if t == nil || t.Latency == nil || densest <= 0 {
		return math.MaxInt
	}
	return 2 + int(2*t.Latency.P99/densest)
}

// longWait is how long a request must wait to count as one that no process accepted, if no latency is known.
const longWait = 200 * time.Millisecond

// longWait returns how long a request to the window's target must wait to count as one that no process accepted.
func (v *Traffic) longWait(w *model.Window) time.Duration {
	if t := v.Target(w); t.Latency != nil {
		return max(longWait, 2*t.Latency.P99)
	}
	return model.Never
}
