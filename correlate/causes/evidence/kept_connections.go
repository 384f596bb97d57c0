package evidence

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file finds the Pods whose end made requests on persistent connections fail.

// A Cutter is a Pod whose end cut the connections that were pinned to it, or made requests on them fail.
type Cutter struct {
	Pod    *model.Pod
	Target string          // of its own address; "" if there is none
	Ends   []model.Instant // when it stopped and when it exited, as far as known
	Proved bool            // by its own address
	Cut    int             // requests
	Fails  []endFailure    // how its own address failed since it was asked to end
	As     FormCount       // how the requests failed
	Unlike int             // of them, those that failed otherwise than its own address did
}

// FindCutters returns the ending Pods that made the window's requests fail, and how many. Each explains the requests in
// flight when it ended, the next one on each connection, and those it answered badly or not at all until it had ended.
// One of them ended, or began to fail, at the window's onset.
func FindCutters(v *Endings, w *model.Window) (cutters []*Cutter, cut int) {
	t := v.traffic.Target(w)
	reach := v.traffic.Uses(t, NextUse(t), w.Start.Earliest)
	opens := false
	for _, p := range v.services.Pods(w) {
		if !p.TerminatingBy(w.End.Latest) {
			continue
		}
		if c := newCutter(v, w, p); c != nil {
			cutters = append(cutters, c)
			opens = opens || slices.ContainsFunc(c.Starts(), func(at model.Instant) bool {
				at.Latest += reach
				return at.Overlaps(v.traffic.Onset(w))
			})
		}
	}
	if !opens {
		return nil, 0
	}
	for _, f := range v.traffic.Failures(w) {
		var c *Cutter
		if f.Class == timeline.Reset || f.Class == timeline.EOF {
			c = cutterOf(cutters, f, reach)
		}
		if c == nil && !v.traffic.Datagrams(w) {
			c = failedOn(cutters, &f)
		}
		if c != nil {
			c.Cut++
			cut++
			c.As.add(&f, model.Never)
		}
	}
	if none := slices.IndexFunc(cutters, func(c *Cutter) bool {
		return 2*c.Unlike > c.Cut
	}); none >= 0 && 2*cut < w.Failed {
		return nil, 0 // most failed elsewhere, and nothing tells that these failed there
	}
	cutters = slices.DeleteFunc(cutters, func(c *Cutter) bool { return c.Cut == 0 })
	slices.SortStableFunc(cutters, func(a, b *Cutter) int {
		return cmp.Compare(a.Starts()[0].Earliest, b.Starts()[0].Earliest)
	})
	return cutters, cut
}

func newCutter(v *Endings, w *model.Window, p *model.Pod) *Cutter {
	probe := v.addresses.Probe(w, p)
	c := &Cutter{Pod: p, Target: probe.Target, Proved: probe.Stopped != nil, Fails: v.EndFailures(w, p)}
	for _, at := range []*model.Instant{probe.Stopped, p.Exited} {
		if at != nil && p.TerminatingBy(at.Latest) { // else it ended before anybody had asked for it
			c.Ends = append(c.Ends, *at)
		}
	}
	if len(c.Starts()) == 0 || !v.services.WasEndpoint(w, p, w.End.Latest) {
		return nil
	}
	return c
}

// cutterOf returns the Pod that ended last before f was cut, nil if none ended so shortly before.
func cutterOf(cutters []*Cutter, f model.Failure, reach time.Duration) (found *Cutter) {
	var ended time.Duration
	for _, c := range cutters {
		for _, at := range c.Ends {
			if at.Earliest <= f.Latest() && f.Earliest() <= at.Latest+reach && (found == nil || at.Earliest > ended) {
				found, ended = c, at.Earliest
			}
		}
	}
	return found
}

// Starts returns when requests on the Pod's connections can have begun to fail: as it stopped, as it exited, and each
// time its own address began to fail.
func (c *Cutter) Starts() []model.Instant {
	starts := slices.Clone(c.Ends)
	for _, e := range c.Fails {
		starts = append(starts, e.From)
	}
	return starts
}

// failedOn returns the Pod that can have made a request on a kept connection fail without cutting it: its own address
// failed at that time, in the same way if possible.
func failedOn(cutters []*Cutter, f *model.Failure) (found *Cutter) {
	if !f.Reused && f.Class != timeline.NoSlot || f.Class == timeline.DNS || windows.Unconnected(f.Class) {
		return nil
	}
	for _, c := range cutters {
		for _, e := range c.Fails {
			switch {
			case f.Latest() < e.From.Earliest || e.Again && f.Earliest() > e.Outage.End.Latest:
			case c.Pod.Exited != nil && f.Earliest() > c.Pod.Exited.Latest+Moment:
			// its address did not time out
			case f.Class == timeline.NoSlot && Count(e.Outage.Classes, timeline.TimeoutResponse) == 0:
			case e.made(f):
				return c
			default:
				found = c
			}
		}
	}
	if found != nil {
		found.Unlike++
	}
	return found
}

// Stop returns the Pod's stop in the form that rules about routes use.
func (c *Cutter) Stop() *PodStop {
	s := &PodStop{Pod: c.Pod, Target: c.Target, At: c.Starts()[0], Proved: c.Proved || len(c.Fails) > 0,
		fails: c.Fails, Quiet: c.As.Most() == CutsAll}
	if len(c.Fails) > 0 {
		s.Target, s.At = c.Fails[0].Target, c.Fails[0].From
	}
	return s
}

func StopsOf(cutters []*Cutter) (stops []*PodStop) {
	for _, c := range cutters {
		stops = append(stops, c.Stop())
	}
	return stops
}
