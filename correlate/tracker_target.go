package correlate

import (
	"slices"
	"time"

	"lapse/timeline"
)

// A track is what is known of one target. Counts and series take requests as they come; windows and
// gaps need them in the order they were sent, so the newest wait until the prober's watermark
// promises that none before them is missing.
type track struct {
	target   timeline.Target
	interval time.Duration
	tally    tally
	series   series
	asked    time.Duration // --slow; 0 if it was not given

	begun   *time.Duration // when the prober was told to measure it; nil if that is not on record
	waiting []flight       // handed on, but not read yet
	mark    time.Duration  // the watermark: every request due before it was handed on
	reading
}

// A reading is how far a track's requests were read in order, and what was found.
type reading struct {
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

// newTrack begins the track of a target that is judged as o says, in a run with a baseline.
func newTrack(t timeline.Target, o Options, baseline time.Duration) *track {
	join, resolution := o.Join, o.Resolution
	keep := historyNeeded(t, join)
	find := func(slow time.Duration) finder {
		return finder{
			join: join, slow: slow, timeout: t.Timeout, interval: interval(t), floor: -1,
			recent: history{keep: keep}, healthy: healthy{maxGap: usualGap(t)},
		}
	}
	w := watch{limit: gapLimit(t, resolution), usual: usualGap(t), varies: t.Kind == timeline.Direct, asked: resolution}
	return &track{target: t, interval: interval(t), asked: o.Slow, reading: reading{watch: w, failures: find(0), slow: slowFinder{finder: find(o.Slow), start: max(baseline, leastStart)}}}
}

// historyNeeded is how many successes before a window its start may have to count back: k is at
// most 6.91 ÷ p̃, and p̃ about one failure per join and timeout. A window that needs more is open.
func historyNeeded(t timeline.Target, join time.Duration) int {
	between := t.Rate * (join + t.Timeout).Seconds()
	return int(min(max(7*between, 1<<10), 1<<17))
}

func (t *track) add(r timeline.Request) {
	r.Due = max(r.Due, 0)
	r.Sent = max(r.Sent, r.Due)
	r.Done = max(r.Done, r.Sent)
	t.tally.add(&r, t.interval, t.target.Kind == timeline.Reused)
	if r.Class.Observed() {
		t.series.add(&r)
	}
	t.waiting = append(t.waiting, flight{sent: r.Sent, done: r.Done, due: r.Due, seq: r.Seq, backend: r.Backend, class: r.Class})
}

// passed takes a watermark: everything sent before it is final, for Sent is never before Due.
func (t *track) passed(mark time.Duration) {
	if mark <= t.mark {
		return
	}
	t.mark = mark
	t.sort()
	n := 0
	for n < len(t.waiting) && t.waiting[n].sent < mark {
		n++
	}
	for _, r := range t.waiting[:n] {
		t.take(r, t)
	}
	t.waiting = t.waiting[:copy(t.waiting, t.waiting[n:])]
}

func (t *track) sort() {
	if !slices.IsSortedFunc(t.waiting, inOrder) {
		slices.SortFunc(t.waiting, inOrder)
	}
}

// take reads the next request of t.
func (g *reading) take(r flight, t *track) {
	r.sent = max(r.sent, g.read) // a request the watermark had promised not to come
	r.done = max(r.done, r.sent)
	g.read = r.sent
	if !g.watch.begun {
		g.failures.begin, g.slow.begin = t.begin(), t.begin()
	}
	gap := g.watch.take(r, t.begin())
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
	if t.target.Kind == timeline.New {
		g.streaks.take(r)
	}
	if t.target.Kind != timeline.Control {
		return
	}
	switch took := (period{from: r.sent, to: r.done, reason: reasonStalled}); {
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

// begin is when measuring began: at the first due instant, unless that came later than getting ready explains. Then what
// kept the prober from it is part of the run.
func (t *track) begin() time.Duration {
	if t.begun != nil && t.tally.firstDue-*t.begun > gettingReady {
		return *t.begun
	}
	return t.tally.firstDue
}

// gettingReady is how long a prober may take until a target's first request is due.
const gettingReady = 150 * time.Millisecond

// known is the instant up to which t is known to have been measured.
func (t *track) known() time.Duration { return max(t.mark, t.tally.lastSent) }

// A sight is a track read to its end, though more may come.
type sight struct {
	*track
	reading  reading  // the track's, read on
	measured period   // from begin to the end of measuring
	dark     []period // unobserved time, sorted and disjoint
	unsure   []period // dark, and gaps that are none but longer than usual
	tail     []period // unobserved time at the end; at most one
	live     bool
}

// look reads on to the end of what is there. runEnd is when the run ended, or how far it has come;
// stop when the measuring of this target did.
func (t *track) look(stop time.Duration, live bool) *sight {
	t.sort()
	s := &sight{track: t, reading: t.reading.clone(), live: live}
	for _, r := range t.waiting {
		s.reading.take(r, t)
	}
	known := t.known()
	s.measured = period{from: t.begin(), to: max(stop, known)}
	grace := t.target.Timeout + time.Second
	early := stop-known > grace
	if live && !early {
		s.measured.to = known // what was due until then was sent; the rest is waiting for answers
	}
	if gap := s.reading.watch.gapBefore(s.measured.to); gap.dark && s.reading.watch.begun {
		if early {
			gap.idle.reason = reasonEnded
		}
		s.tail = []period{gap.idle}
		s.reading.failures.unobserved(gap.idle.from, gap.idle.to)
		s.reading.slow.unobserved(gap.idle.from, gap.idle.to)
	}
	s.reading.failures.finish(s.measured.to)
	s.reading.slow.finish(s.measured.to)
	return s
}
