package windows

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A Reading is how far a track's requests were read in order, and what was found.
type Reading struct {
	kind      timeline.TargetKind
	Intervals *Intervals    // shared with clones
	asked     time.Duration // --slow; 0 if it was not given
	read      time.Duration // Sent of the last one
	Gaps      gapFinder
	failures  finder
	Slow      slowFinder
	Streaks   Streaks  // of a target of kind new
	Answers   *Answers // of a target of kind new whose answers by backend are wanted; else nil
	Stalls    []Period // of a control target: when the prober itself was slow
	Faults    []Period // of a control target: when the prober itself failed
	Stopped   []Period // as both, while the prober did not run: that is known without them
}

// controlStall is the round trip to the prober's own echo server that only a stalled prober makes.
const controlStall = 100 * time.Millisecond

// A Options says how requests are judged.
type Options struct {
	Join, Slow, Resolution time.Duration // see [correlate.Options]
	Baseline               time.Duration // how long the run's baseline was to take
	Answers                bool          // which backends answered is wanted
}

func NewReading(t timeline.Target, o Options) Reading {
	var answers *Answers
	if o.Answers && t.Kind == timeline.New {
		answers = &Answers{}
	}
	keep := historyNeeded(t, o.Join)
	intervals := NewIntervals(t.Interval())
	start := min(o.Baseline, max(mostStart, startAnswers*t.Interval()))
	find := func(slow time.Duration) finder {
		return finder{
			join: o.Join, Slow: slow, timeout: t.Timeout, intervals: intervals, floor: -1,
			recent: successHistory{keep: keep},
		}
	}
	return Reading{
		kind:      t.Kind,
		asked:     o.Slow,
		Intervals: intervals,
		Gaps:      gapFinder{intervals: intervals, varies: t.Kind == timeline.Direct, asked: o.Resolution},
		failures:  find(0),
		Answers:   answers,
		Slow:      slowFinder{finder: find(o.Slow), start: max(start, leastStart)},
	}
}

// Rerate notes that the target is asked at another rate from an instant on. join is the one of the options.
func (g *Reading) Rerate(t timeline.Target, from, join time.Duration) {
	g.Intervals.Change(from, t.Interval())
	for _, f := range []*finder{&g.failures, &g.Slow.finder} {
		f.recent.keep = max(f.recent.keep, historyNeeded(t, join))
	}
}

// historyNeeded returns how many successes before a window its start may have to count back: k is at
// most 6.91 ÷ p̃, and p̃ about one failure per join and timeout. A window that needs more is open.
func historyNeeded(t timeline.Target, join time.Duration) int {
	between := t.Rate * (join + t.Timeout).Seconds()
	return int(min(max(7*between, 1<<10), 1<<17))
}

// Take reads the next request, by Sent. begin is when measuring began.
func (g *Reading) Take(r *Sample, begin time.Duration) {
	if r.Sent < g.read { // the watermark had promised that it would not come
		late := *r
		late.Sent, late.Done = g.read, max(late.Done, g.read)
		r = &late
	}
	g.read = r.Sent
	if !g.Gaps.begun {
		g.failures.begin, g.Slow.begin = begin, begin
	}
	gap := g.Gaps.take(r, begin)
	switch {
	case gap.unobserved:
		g.failures.unobserved(gap.idle.From, gap.idle.To)
	case gap.longer:
		g.failures.skipped()
	}
	if r.Class == timeline.Local {
		g.failures.local()
	}
	if !r.Class.Observed() {
		return
	}
	g.failures.take(r)
	g.Slow.take(r, gap)
	if g.kind == timeline.New {
		g.Streaks.take(r)
		if g.Answers != nil {
			g.Answers.take(r)
		}
	}
	if g.kind != timeline.Control || !r.Class.Failed() && r.Done-r.Sent <= controlStall {
		return
	}
	switch took := (Period{From: r.Sent, To: r.Done, Reason: model.ReasonStalled}); {
	case r.Delayed:
		g.Stopped = append(g.Stopped, took)
	case r.Class.Failed():
		g.Faults = append(g.Faults, took)
	default:
		g.Stalls = append(g.Stalls, took)
	}
}

// Clone returns a reading that can go on while g stands still. It holds only the windows that it finds itself.
func (g *Reading) Clone() Reading {
	c := *g
	c.Gaps.unobserved = slices.Clip(g.Gaps.unobserved)
	c.Gaps.skipped = slices.Clip(g.Gaps.skipped)
	c.Gaps.waiting = slices.Clip(g.Gaps.waiting)
	c.Stalls, c.Faults, c.Stopped = slices.Clip(g.Stalls), slices.Clip(g.Faults), slices.Clip(g.Stopped)
	c.failures, c.Slow = g.failures.clone(), g.Slow.clone()
	c.Streaks = g.Streaks.clone()
	if g.Answers != nil {
		c.Answers = new(g.Answers.clone())
	}
	return c
}

// Rest lets go of what is needed only while requests come.
func (g *Reading) Rest() {
	g.failures.rest()
	g.Slow.rest()
}

// Finish ends the reading when measuring ended, early or not, and returns the unobserved time at its end.
func (g *Reading) Finish(end time.Duration, early bool) (tail []Period) {
	if gap := g.Gaps.gapBefore(end); gap.unobserved && g.Gaps.begun {
		if early {
			gap.idle.Reason = model.ReasonEnded
		}
		tail = []Period{gap.idle}
		g.failures.unobserved(gap.idle.From, gap.idle.To)
		g.Slow.unobserved(gap.idle.From, gap.idle.To)
	}
	g.failures.finish(end)
	g.Slow.finish(end)
	return tail
}

// Unobserved returns the time within bounds that was not observed, sorted and disjoint: the gaps between sends, what
// the control target showed of the prober, and others that all targets share. unsure also has the gaps that are longer
// than usual.
func (g *Reading) Unobserved(within Period, tail, stalls, slow, failed []Period) (unobserved, unsure []Period) {
	unobserved = merge(within, g.Gaps.unobserved, tail, g.Gaps.longer(stalls), g.Gaps.longer(slow), failed)
	return unobserved, merge(within, unobserved, g.Gaps.skipped)
}

// Windows publishes the windows of failures, then those of slow successes. The windows that before had found already
// are final; the others are live if the run is.
func (g *Reading) Windows(before *Reading, unobserved, unsure []Period, fastest time.Duration, live bool,
	backends []string) []model.Window {
	list := []model.Window{}
	publish := func(w window, slow, live bool) {
		p := w.publish(slow, unobserved, unsure, g.Intervals, backends)
		p.Live = live
		list = append(list, p)
	}
	for _, slow := range []bool{false, true} {
		old, latest := &before.failures, &g.failures
		if slow {
			old, latest = &before.Slow.finder, &g.Slow.finder
		}
		if slow && fastest > latest.Slow {
			break // every answer is: that is how the target answers, and no window
		}
		for _, w := range old.found {
			publish(w, slow, false)
		}
		for _, w := range latest.found {
			publish(w, slow, live)
		}
	}
	return list
}

// Densest returns the shortest time between the due instants of a direct target's requests; 0 if that is not known. The
// one between two requests at which its rate changed does not count.
func (g *Reading) Densest() time.Duration { return g.Gaps.densest }

// AlwaysSlow reports whether every answer took longer than --slow, or than leastSlow if that was not given.
func (g *Reading) AlwaysSlow(fastest time.Duration) bool {
	return fastest > cmp.Or(g.asked, leastSlow)
}
