package correlate

import (
	"cmp"
	"slices"
	"time"

	"lapse/timeline"
)

// A reading is how far a track's requests were read in order, and what was found.
type reading struct {
	kind     timeline.TargetKind
	asked    time.Duration // --slow; 0 if it was not given
	read     time.Duration // Sent of the last one
	watch    watch
	failures finder
	slow     slowFinder
	streaks  streaks  // of a target of kind new
	stalls   []period // of a control target: when the prober itself was slow
	faults   []period // of a control target: when the prober itself failed
}

// controlStall is the round trip to the prober's own echo server that only a stalled prober makes.
const controlStall = 100 * time.Millisecond

// A readingOptions says how requests are judged.
type readingOptions struct {
	join, slow, resolution time.Duration // see [Options]
	baseline               time.Duration // how long the run's baseline was to take
}

func newReading(t timeline.Target, o readingOptions) reading {
	keep := historyNeeded(t, o.join)
	find := func(slow time.Duration) finder {
		return finder{
			join: o.join, slow: slow, timeout: t.Timeout, interval: interval(t), floor: -1,
			recent: history{keep: keep}, healthy: healthy{maxGap: usualGap(t)},
		}
	}
	return reading{
		kind:     t.Kind,
		asked:    o.slow,
		watch:    watch{limit: gapLimit(t, o.resolution), usual: usualGap(t), varies: t.Kind == timeline.Direct, asked: o.resolution},
		failures: find(0),
		slow:     slowFinder{finder: find(o.slow), start: max(o.baseline, leastStart)},
	}
}

// historyNeeded is how many successes before a window its start may have to count back: k is at
// most 6.91 ÷ p̃, and p̃ about one failure per join and timeout. A window that needs more is open.
func historyNeeded(t timeline.Target, join time.Duration) int {
	between := t.Rate * (join + t.Timeout).Seconds()
	return int(min(max(7*between, 1<<10), 1<<17))
}

// take reads the next request, by Sent. begin is when measuring began.
func (g *reading) take(r flight, begin time.Duration) {
	r.sent = max(r.sent, g.read) // a request the watermark had promised not to come
	r.done = max(r.done, r.sent)
	g.read = r.sent
	if !g.watch.begun {
		g.failures.begin, g.slow.begin = begin, begin
	}
	gap := g.watch.take(r, begin)
	switch {
	case gap.dark:
		g.failures.unobserved(gap.idle.from, gap.idle.to)
	case gap.short:
		g.failures.skipped()
	}
	if !r.class.Observed() {
		return
	}
	g.failures.take(r)
	g.slow.take(r, gap)
	if g.kind == timeline.New {
		g.streaks.take(r)
	}
	if g.kind != timeline.Control {
		return
	}
	switch took := (period{from: r.sent, to: r.done, reason: ReasonStalled}); {
	case r.class.Failed():
		g.faults = append(g.faults, took)
	case r.done-r.sent > controlStall:
		g.stalls = append(g.stalls, took)
	}
}

// clone returns a reading that can go on while g stands still. Its lists begin empty, but for the
// ones of watch and stalls.
func (g *reading) clone() reading {
	c := *g
	c.watch.dark = slices.Clip(g.watch.dark)
	c.watch.short = slices.Clip(g.watch.short)
	c.watch.waiting = slices.Clip(g.watch.waiting)
	c.stalls, c.faults = slices.Clip(g.stalls), slices.Clip(g.faults)
	c.failures, c.slow = g.failures.clone(), g.slow.clone()
	c.streaks = g.streaks.clone()
	return c
}

// finish ends the reading when measuring ended, early or not, and returns the unobserved time at its end.
func (g *reading) finish(end time.Duration, early bool) (tail []period) {
	if gap := g.watch.gapBefore(end); gap.dark && g.watch.begun {
		if early {
			gap.idle.reason = ReasonEnded
		}
		tail = []period{gap.idle}
		g.failures.unobserved(gap.idle.from, gap.idle.to)
		g.slow.unobserved(gap.idle.from, gap.idle.to)
	}
	g.failures.finish(end)
	g.slow.finish(end)
	return tail
}

// unobserved is the time within bounds that was not observed, sorted and disjoint: the gaps between sends, what the control target
// showed of the prober, and others that all targets share. unsure is that, and gaps that are none but longer than usual.
func (g *reading) unobserved(within period, tail, stalls, slow, failed []period) (dark, unsure []period) {
	limit := g.watch.limit
	dark = merge(within, g.watch.dark, tail, longerThan(limit, stalls), longerThan(limit, slow), failed)
	return dark, merge(within, dark, g.watch.short)
}

// windows publishes the windows: of failures, then of slow successes. Those that before had found already are final, the others as
// live as the run is.
func (g *reading) windows(before *reading, dark, unsure []period, fastest time.Duration, live bool, backends []string) []Window {
	list := []Window{}
	publish := func(w window, slow, live bool) {
		p := w.publish(slow, dark, unsure, backends)
		p.Live = live
		list = append(list, p)
	}
	for _, slow := range []bool{false, true} {
		old, latest := &before.failures, &g.failures
		if slow {
			old, latest = &before.slow.finder, &g.slow.finder
		}
		if slow && fastest > latest.slow {
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

// alwaysSlow reports whether every answer took longer than an answer may that is not slow, measured against nothing but the clock.
func (g *reading) alwaysSlow(fastest time.Duration) bool {
	return fastest > cmp.Or(g.asked, leastSlow)
}
