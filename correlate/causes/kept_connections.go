package causes

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/windows"
	"lapse/timeline"
)

// This file tells which Pods' ends made requests on persistent connections fail.

// A cutter is a Pod at whose end connections that were pinned to it were cut, or failed otherwise.
type cutter struct {
	pod    *model.Pod
	target string          // of its own address; "" if there is none
	ends   []model.Instant // when it stopped and when it exited, as far as known
	proved bool            // by its own address
	cut    int             // requests
	fails  []endFailure    // how its own address failed since it was asked to end
	as     formCount       // how the requests failed
	unlike int             // of them, those that failed otherwise than its own address did
}

// findCutters finds the ending Pods whose ends made the window's requests fail, each its own: those that were under
// way then, the next one on each connection, and those that were answered badly, or not at all, until the Pod had
// ended. One of them ended, or began to fail, at the window's onset.
func findCutters(v *index, w *model.Window) (cutters []*cutter, cut int) {
	t := v.target(w)
	reach := time.Duration(float64(nextUse(t)) * float64(timeline.Target{Rate: t.Rate}.Interval()))
	opens := false
	for _, p := range v.pods(w) {
		if !p.TerminatingBy(w.End.Latest) {
			continue
		}
		if c := newCutter(v, w, p); c != nil {
			cutters = append(cutters, c)
			opens = opens || slices.ContainsFunc(c.starts(), func(at model.Instant) bool {
				at.Latest += reach
				return at.Overlaps(v.onset(w))
			})
		}
	}
	if !opens {
		return nil, 0
	}
	for _, f := range v.failuresOf(w) {
		var c *cutter
		if f.Class == timeline.Reset || f.Class == timeline.EOF {
			c = cutterOf(cutters, f, reach)
		}
		if c == nil && !v.datagrams(w) {
			c = failedOn(cutters, &f)
		}
		if c != nil {
			c.cut++
			cut++
			c.as.add(&f, model.Never)
		}
	}
	if none := slices.IndexFunc(cutters, func(c *cutter) bool { return 2*c.unlike > c.cut }); none >= 0 && 2*cut < w.Failed {
		return nil, 0 // most failed elsewhere, and nothing tells that these failed there
	}
	cutters = slices.DeleteFunc(cutters, func(c *cutter) bool { return c.cut == 0 })
	slices.SortStableFunc(cutters, func(a, b *cutter) int { return cmp.Compare(a.starts()[0].Earliest, b.starts()[0].Earliest) })
	return cutters, cut
}

func newCutter(v *index, w *model.Window, p *model.Pod) *cutter {
	probe := v.probe(w, p)
	c := &cutter{pod: p, target: probe.target, proved: probe.stopped != nil, fails: v.endFailures(w, p)}
	for _, at := range []*model.Instant{probe.stopped, p.Exited} {
		if at != nil && p.TerminatingBy(at.Latest) { // else it ended before anybody had asked for it
			c.ends = append(c.ends, *at)
		}
	}
	if len(c.starts()) == 0 || !v.wasEndpoint(w, p, w.End.Latest) {
		return nil
	}
	return c
}

// cutterOf is the Pod that ended last before f was cut, nil if none ended so shortly before.
func cutterOf(cutters []*cutter, f model.Failure, reach time.Duration) (found *cutter) {
	var ended time.Duration
	for _, c := range cutters {
		for _, at := range c.ends {
			if at.Earliest <= f.Latest() && f.Earliest() <= at.Latest+reach && (found == nil || at.Earliest > ended) {
				found, ended = c, at.Earliest
			}
		}
	}
	return found
}

// starts are when requests on the Pod's connections can have begun to fail: as it stopped, as it exited, and each time
// its own address began to fail.
func (c *cutter) starts() []model.Instant {
	starts := slices.Clone(c.ends)
	for _, e := range c.fails {
		starts = append(starts, e.from)
	}
	return starts
}

// failedOn is the Pod that can have made a request fail which was sent on a connection that is kept, and not only cut
// it: its own address failed at that time, in the same way if possible.
func failedOn(cutters []*cutter, f *model.Failure) (found *cutter) {
	if !f.Reused && f.Class != timeline.NoSlot || f.Class == timeline.DNS || windows.Unconnected(f.Class) {
		return nil
	}
	for _, c := range cutters {
		for _, e := range c.fails {
			switch {
			case f.Latest() < e.from.Earliest || e.again && f.Earliest() > e.outage.End.Latest:
			case c.pod.Exited != nil && f.Earliest() > c.pod.Exited.Latest+moment:
			case f.Class == timeline.NoSlot && some(e.outage.Classes, timeline.TimeoutResponse) == 0: // nobody was silent
			case e.made(f):
				return c
			default:
				found = c
			}
		}
	}
	if found != nil {
		found.unlike++
	}
	return found
}

// stop is the Pod's stop, as rules about routes know it.
func (c *cutter) stop() *podStop {
	s := &podStop{pod: c.pod, target: c.target, at: c.starts()[0], proved: c.proved || len(c.fails) > 0, fails: c.fails, quiet: c.as.most() == cutsAll}
	if len(c.fails) > 0 {
		s.target, s.at = c.fails[0].target, c.fails[0].from
	}
	return s
}

func stopsOf(cutters []*cutter) (stops []*podStop) {
	for _, c := range cutters {
		stops = append(stops, c.stop())
	}
	return stops
}
