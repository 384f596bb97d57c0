package measure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/run/flight"
	"lapse/internal/run/live"
	"lapse/internal/run/signs"
	"lapse/internal/run/source"
	"lapse/loadgen"
	"lapse/timeline"
)

// Armed says how a run waits for the first sign of a disruption. Until then few requests are sent, and what they show
// is kept in memory for two minutes. The run begins where that does.
//
//	baseline   armed ........ a sign announces: full rate ... it begins: the run, from 2 min before ... quiet: its end
//	             ^                                                                                               |
//	             '------------------------------ with Ended: from there on ---------------------------------------'
type Armed struct {
	IdleRate float64       // requests per second to each target
	Own      []signs.Mark  // of nodes that are signs in addition to those that are known
	Longest  time.Duration // from the start of this process to the end of the run; 0: no limit
	// Begin makes the live judgement of a run that begins. It may complete the run's description.
	Begin func(meta *timeline.Meta) *live.Run
	// Ended gets each run, judged; the loop then waits for the next sign, and ends only with its context or a signal.
	// What was measured meanwhile is the next run's. The recording has not ended: [live.Recording.End] waits for the
	// disk, and Ended must not. nil: the loop ends with its first run.
	Ended func(*model.Timeline)
	// Places returns how many places share the rate of what this process asks, itself included. It is asked again at
	// each refresh; nil: it asks alone.
	Places func() int
	// Late is how much later than a request's timeout other places tell of it.
	Late time.Duration
	// Raise sets the rates of what the loop does not start itself, to [Loop.MostRate]; nil: nothing.
	Raise func(full bool)
	// Most returns how many requests per second a target may get, while the loop waits or at the full rate. It is asked
	// again at each refresh; nil: there is no limit.
	Most func(full bool) float64
	// Fact gets each fact once, in all phases, on the loop's clock; nil: nothing does.
	Fact func(timeline.Fact)
	// Signed gets each sign that comes after the baseline, or in it and is followed then; nil: nothing does.
	Signed func(signs.Sign)
	Say    func(line string)
}

const (
	// mostArmed is how long the full rate is kept after a sign that announces a disruption.
	mostArmed = 15 * time.Minute
	// standsStill is how long what is under way may show no change, after the grace periods of Pods that are deleted.
	standsStill = 5 * time.Minute
	// mostUnsettled is how long a disruption is measured that does not come to an end.
	mostUnsettled = 30 * time.Minute
	// mostUntold is how long a run's end waits for the last facts of a prober that nothing is heard of.
	mostUntold = 30 * time.Second
	// mostLasting is how long what fails after that, or is lost again and again, is measured at the idle rate, while
	// nothing else changes.
	mostLasting = 12 * time.Hour
)

// armed is how a loop waits for signs. Its zero value is that of a loop whose run begins at once.
type armed struct {
	loop   *Loop
	clocks flight.Clocks
	leaving
	ring   *flight.Ring // nil: nothing waits for a sign any more
	waits  bool         // for a sign, or to begin to
	meta   timeline.Meta
	rates  map[timeline.TargetID]float64 // the full ones
	full   bool                          // they are in force, as far as most allows
	most   float64                       // requests per second to a target, from all places
	places int
	watch  signs.Watch
	early  signs.Sign     // the strongest one of the baseline
	soon   string         // what announced the disruption; empty: nothing has
	until  time.Duration  // when that is not waited for any more
	limit  time.Duration  // when the disruption is not waited for to settle any more
	ended  string         // why the run that closes is not whole, or ""
	past   flight.Instant // when the last run ended; nil: there was none
	told   flight.Instant // up to when each source has told of all its requests, while a run closes

	fails   time.Duration // since when requests fail, with no pause of [armed.quiet]
	failed  time.Duration // when one failed last
	changed time.Duration // when a sign came last that is no failed request, nor a loss that comes again and again
	lasts   string        // what the run shows that ends or goes on, and since when, for people, if it is nothing else

	zero *atomic.Int64 // of the run's shift, for other goroutines
}

// Now returns the instant on the run's clock. Any goroutine may call it.
func (l *Loop) Now() time.Duration { return l.Clock.Now() - l.Zero() }

// Zero returns the instant of [Loop.Clock] at which the run began: not 0 if it waited for a sign. Any goroutine may
// call it.
func (l *Loop) Zero() time.Duration { return time.Duration(l.armed.zero.Load()) }

// MostRate returns how many requests per second a target may get now. Only the goroutine that owns the facts may call
// it.
func (l *Loop) MostRate() float64 {
	if l.Armed == nil {
		return math.Inf(1)
	}
	return l.armed.most
}

// Announced returns the sign of the disruption that is waited for at the full rate, or "". Only the goroutine that owns
// the facts may call it.
func (l *Loop) Announced() string { return l.armed.soon }

// IsDown reports whether a node is not ready, or gone, as far as a loop that waits for signs knows. Only the goroutine
// that owns the facts may call it.
func (l *Loop) IsDown(node string) bool { return l.armed.isDown(node) }

// again reports whether the loop waits for the next sign after a run.
func (l *Loop) again() bool { return l.Armed != nil && l.Armed.Ended != nil }

// await begins to keep facts in memory.
func (a *armed) await(l *Loop, meta timeline.Meta) {
	a.loop, a.clocks, a.leaving, a.waits = l, flight.Clocks{}, newLeaving(), true
	a.ring = &flight.Ring{Here: l.source.ID, Clocks: a.clocks}
	a.ring.Again = l.again()
	if l.again() && l.Pacing == loadgen.Economical { // all sources share a thread, and so forget
		a.ring.ForgetUnused = 3 * loadgen.ForgetUnused
	}
	a.watch.Own = l.Armed.Own
	a.meta, a.rates = meta, map[timeline.TargetID]float64{}
	a.most, a.places = a.allowed(false), a.shared()
	l.Live = live.New(nil) // for the baseline
}

// arm begins to wait for a sign, after the baseline.
func (a *armed) arm() {
	l := a.loop
	l.Phase, l.Live = timeline.PhaseArmed, live.New(nil)
	l.timer.Stop()
	if l.Entered != nil {
		l.Entered(timeline.PhaseArmed, "")
	}
	limit := ""
	if l.Armed.Longest > 0 {
		limit = " (at most " + quantity.Span(l.Armed.Longest) + ": --max-duration)"
	}
	l.Armed.Say(fmt.Sprintf("armed: %s/s to each target until the first sign of a disruption%s; "+
		"the run then begins up to two minutes before it", quantity.Number(a.allowed(false)), limit))
	if a.soon != "" && l.Clock.Now() >= a.until { // announced in the run before, and not waited for any more
		a.soon = ""
	}
	early := a.early
	a.early = signs.Sign{}
	a.follow(early)
}

// signOf takes in a fact, and returns the sign that it is, or one of class [signs.None].
func (a *armed) signOf(f timeline.Fact) signs.Sign {
	l := a.loop
	switch f := f.(type) {
	case timeline.Event:
		return a.watch.Event(f)
	case timeline.Batch:
		edge := a.past
		if l.closes > 0 {
			edge = l.edge
			for i, w := range f.Watermarks {
				if i == 0 || w.Due < a.told[f.Source] {
					a.told[f.Source] = w.Due
				}
			}
		}
		if !anyFailed(f.Requests) {
			break
		}
		if edge != nil { // a late failure is of the run before
			before := func(q timeline.Request) bool { return q.Due < edge[f.Source] }
			f.Requests = slices.DeleteFunc(slices.Clone(f.Requests), before)
		}
		f = a.clocks.Here(f)
		return a.watch.Batch(f, func(id timeline.TargetID) bool { return l.Targets[id].Kind.Judged() })
	}
	return signs.Sign{}
}

// heed follows a sign. One in the baseline is followed after it.
func (a *armed) heed(sign signs.Sign) {
	l := a.loop
	switch {
	case l.Phase != timeline.PhaseBaseline && l.Phase != timeline.PhaseStarting:
		a.follow(sign)
	case sign.Name == "deletion" || sign.Name == "eviction": // the first list has Pods that were ending before
	case sign.Class > a.early.Class:
		a.early = sign
	}
}

// endLasting ends a run of what lasts just before a sign of something else: what failed before is not of the next run.
// A run goes on if no request failed in it, if it has requests of later, or if what happens may have begun long before.
func (a *armed) endLasting(sign signs.Sign) {
	l := a.loop
	if a.lasts == "" || l.Phase != timeline.PhaseMeasuring || l.closes > 0 || a.failed < l.shift.By ||
		sign.Class < signs.Soon || sign.MayLast() || sign.Name == signs.NodeLost {
		return
	}
	if edge := a.ring.At(sign.At); !a.ring.MeasuredSince(edge) {
		a.close(sign.At, edge, "")
		a.lasts = ""
		a.setRates(true) // before the run is judged
	}
}

// close ends the run at an instant: its last responses are awaited. why says why it is not whole, or is "".
func (a *armed) close(at time.Duration, edge flight.Instant, why string) {
	a.loop.closes, a.loop.edge, a.ended, a.told = at, edge, why, flight.Instant{}
}

// follow raises the rate if a sign announces a disruption, and begins the run if the disruption has begun.
func (a *armed) follow(sign signs.Sign) {
	l := a.loop
	if sign.Class >= signs.Soon {
		a.noteOutage(sign)
		if l.closes > 0 && sign.Class > signs.Soon { // the next disruption begins while the last responses are awaited
			if a.ended == "" && (a.awaits(l.source.ID) || !a.allTold()) { // those are the next run's
				a.ended = "the next disruption began" + notAwaited
			}
			a.rearm()
		}
	}
	if sign.Class > signs.None && l.Armed.Signed != nil {
		l.Armed.Signed(sign)
	}
	if sign.Class < signs.Soon {
		return
	}
	if l.Phase != timeline.PhaseArmed && (sign.Class > signs.Soon || l.closes == 0) {
		return
	}
	if sign.Class == signs.Soon {
		if a.soon == "" {
			l.Armed.Say("a sign: " + sign.Text + "; the full rate from now on")
		}
		a.expect(sign)
		a.setRates(a.lasts == "")
		return
	}
	if a.soon == "" && sign.MayLast() {
		a.lasts = cmp.Or(a.lasts, a.repeats(l.Clock.Now()))
	}
	a.setRates(a.lasts == "")
	a.limit = l.Clock.Now() + mostUnsettled
	if a.lasts != "" {
		a.limit, sign.Text = l.Clock.Now()+mostLasting, a.lasts
	}
	a.beginRun()
	l.enter(timeline.PhaseMeasuring, "first sign: "+cmp.Or(a.soon, sign.Text))
	a.soon = ""
}

// noteOutage notes since when requests fail or an endpoint is lost again and again, while nothing else happens. What
// else happens to such a Service is measured at the full rate.
func (a *armed) noteOutage(sign signs.Sign) {
	l := a.loop
	if failed := sign.Name == signs.ARequest; sign.MayLast() {
		recovered := a.failed == 0 || sign.At-a.failed > a.quiet()
		if recovered && a.lasts != "" {
			a.lasts = a.repeats(sign.At)
		}
		if failed && recovered {
			a.fails = sign.At
		}
		if failed {
			a.failed = sign.At
		}
		return
	}
	a.changed = sign.At
	if a.lasts == "" {
		return
	}
	a.lasts = ""
	if l.closes == 0 && l.Phase == timeline.PhaseMeasuring {
		a.limit = l.Clock.Now() + mostUnsettled
		a.setRates(true)
	}
}

// outage returns what has lasted at now, and since when, if nothing else has happened for a while; else "".
func (a *armed) outage(now time.Duration) string {
	if !a.loop.again() || now-a.changed < standsStill {
		return ""
	}
	if now-a.failed <= a.quiet() && now-a.fails >= standsStill {
		return signs.Lasting + stamp(a.fails-now)
	}
	return a.repeats(now)
}

// repeats returns which endpoint is lost again and again at now, and since when; else "".
func (a *armed) repeats(now time.Duration) string {
	text, since := a.watch.Repeats(now)
	if text == "" || !a.loop.again() {
		return ""
	}
	return text + stamp(since-now)
}

// stamp returns, for people, when it is in a time from now, or was. The wall clock may have been set since this process
// began.
func stamp(from time.Duration) string {
	return timeline.StartClock().T0().Add(from).UTC().Format(time.DateTime) + " UTC"
}

// quiet is how long nothing may change until a disruption is over: from each place two requests must have been due, and
// answered.
func (a *armed) quiet() time.Duration {
	return max(a.loop.Settle, time.Duration(2*float64(a.places)/a.most*float64(time.Second))+a.loop.Timeout)
}

// expect waits for the disruption that a sign announces.
func (a *armed) expect(sign signs.Sign) {
	if a.soon == "" {
		a.soon, a.until = sign.Text, 0
	}
	a.until = max(a.until, a.loop.Clock.Now()+cmp.Or(sign.Holds, mostArmed))
}

// Announce takes in a sign of class [signs.Soon] that no fact shows. Only the goroutine that owns the facts may call
// it: see [Loop.Calls]. A run that goes on does not get longer by it: the full rate then stays after its end.
func Announce(l *Loop, sign signs.Sign) {
	sign.At = l.Clock.Now()
	switch l.Phase {
	case timeline.PhaseStarting, timeline.PhaseBaseline:
		if l.armed.early.Class < sign.Class {
			l.armed.early = sign
		}
	case timeline.PhaseArmed:
		l.armed.follow(sign)
	default:
		if l.armed.endLasting(sign); l.closes > 0 {
			l.armed.follow(sign)
			break
		}
		l.armed.noteOutage(sign)
		l.armed.expect(sign)
	}
}

// beginRun begins the run, where the facts that are kept begin.
func (a *armed) beginRun() {
	l := a.loop
	now := l.Clock.Now()
	facts, shift := a.ring.Take(now)
	if a.waits, l.shift = false, shift; !l.again() {
		a.ring = nil
	}
	a.zero.Store(int64(shift.By))
	meta, here := a.meta, l.source
	wall := timeline.StartClock().T0() // the wall clock may have been set since this process began
	meta.T0 = wall.Add(shift.By - now)
	meta.Options.Baseline = now - shift.By
	here.T0 = meta.T0
	l.Live = l.Armed.Begin(&meta)
	l.record(meta)
	l.record(here)
	first := timeline.PhaseChange(0, "", timeline.PhaseBaseline, "")
	first.Source = here.ID
	l.record(first)
	for _, f := range facts {
		if e, ok := f.(timeline.Event); ok {
			e.Source = cmp.Or(e.Source, here.ID)
			f = e
		}
		l.record(f)
	}
	l.Phase = timeline.PhaseBaseline
}

// unsigned begins a run that ends without a sign, so that what was measured is on record, and returns why it ended.
func (a *armed) unsigned(reason string) string {
	l := a.loop
	was := l.Phase
	a.beginRun()
	if was != timeline.PhaseArmed {
		return reason
	}
	return cmp.Or(reason, "stopped") + ": there was no sign of a disruption until then"
}

// allowed returns how many requests per second a target may get.
func (a *armed) allowed(full bool) float64 {
	most := math.Inf(1)
	if !full {
		most = a.loop.Armed.IdleRate
	}
	if a.loop.Armed.Most != nil {
		most = min(most, a.loop.Armed.Most(full))
	}
	return most
}

// setRates sets the full rates, or those of a run that waits for a sign, as far as they are allowed. Each change is a
// fact.
func (a *armed) setRates(full bool) {
	l := a.loop
	most, places := a.allowed(full), a.shared()
	if a.full == full && a.most == most && a.places == places {
		return
	}
	a.full, a.most, a.places = full, most, places
	for _, id := range slices.Sorted(maps.Keys(a.rates)) {
		t := l.Targets[id]
		rate := a.ownRate(t.Kind, a.rates[id])
		if t.Rate == rate {
			continue
		}
		l.Add(source.RateIs(t.Name, t.Rate, rate, l.Clock.Now()))
		l.Prober.SetRate(id, rate)
		t.Rate = rate
		l.Targets[id] = t
	}
	if l.Armed.Raise != nil {
		l.Armed.Raise(full)
	}
}

// idleControl is how often the control target is asked until a sign, per second: a request to this process's own server
// costs as much as one to the Service, and that this process was stopped is known without.
const idleControl = 1.0

// RateOf returns the rate in force of a target that the loop does not start itself. full is its full rate, and of how
// many places each asks what it asks; each has a control target. Only the goroutine that owns the facts may call it.
func (l *Loop) RateOf(kind timeline.TargetKind, full float64, places int) float64 {
	if l.Armed == nil {
		return full
	}
	return l.armed.rateOf(kind, full, places)
}

// rateOf returns the rate in force of a target whose full one is given, at one of several places that ask the same.
func (a *armed) rateOf(kind timeline.TargetKind, full float64, places int) float64 {
	if kind == timeline.Control && !a.full {
		return min(full, a.most, idleControl)
	}
	return min(full, a.most/float64(places))
}

// ownRate returns the rate in force of a target of this process. full is that of all places together, unless only this
// process asks the target.
func (a *armed) ownRate(kind timeline.TargetKind, full float64) float64 {
	places := 1
	if kind.Judged() {
		places = a.places
	}
	rate := a.rateOf(kind, full/float64(places), places)
	if kind == timeline.Control && !a.full { // no more often than the Service
		rate = min(rate, a.most/float64(a.places))
	}
	return rate
}

// shared returns how many places share a rate.
func (a *armed) shared() int {
	if a.loop.Armed.Places == nil {
		return 1
	}
	return a.loop.Armed.Places()
}

// watchTime ends the run when nothing changes any more, or its time is over, and lowers the rate after a sign that no
// disruption followed.
func (a *armed) watchTime(now time.Duration) {
	l := a.loop
	a.setRates(a.full) // as far as they are allowed now
	end := func(reason string) { l.Request(PhaseRequest{Phase: timeline.PhaseEnded, Reason: reason}) }
	if l.again() {
		end = func(reason string) {
			a.close(now, a.ring.At(now), reason)
			a.watch.Forget()
		}
	}
	repeats := a.lasts != "" && a.repeats(now) != "" // then the next loss is of this run, too
	switch over := l.Armed.Longest > 0 && now >= l.Armed.Longest; {
	case l.closes > 0:
		mostLate := l.Timeout + l.Armed.Late + loadgen.LongestDelivery + live.Refresh
		if since := now - l.closes; since >= mostLate && (a.allTold() || since >= mostUntold) {
			a.rearm()
			a.setRates(a.soon != "")
		}
	case over && l.Phase == timeline.PhaseArmed:
		end(quantity.Span(l.Armed.Longest) + " (--max-duration) are over")
	case over:
		end("--max-duration was over before the disruption had settled")
	case l.Phase == timeline.PhaseArmed && a.soon != "" && now >= a.until:
		l.Armed.Say("nothing has followed the sign: the low rate again")
		a.soon = ""
		a.setRates(false)
	case l.Phase == timeline.PhaseArmed && a.soon == "" && now-a.watch.Last >= standsStill:
		a.watch.Forget() // what hung before the next run is not awaited in it
	case l.Phase == timeline.PhaseMeasuring && !repeats && a.watch.Settled(now, a.quiet()) &&
		!a.leaves(now, l.Armed.Late+time.Second):
		end("")
	case l.Phase == timeline.PhaseMeasuring && (!repeats || a.watch.UnderWay() > 0) &&
		now-a.watch.Still() >= max(standsStill, l.Settle):
		if a.watch.OnlyPending() {
			end("")
			break
		}
		end(fmt.Sprintf("%d Pods or rollouts were still under way, and nothing had changed for 5 minutes",
			a.watch.UnderWay()))
	case l.Phase == timeline.PhaseMeasuring && now >= a.limit:
		if a.lasts = a.outage(now); a.lasts != "" {
			end(a.lasts + ", and nothing else happens: measured on at the idle rate")
			break
		}
		end("the disruption had not settled after 30 minutes")
	}
}

// allTold reports whether each prober has told of all its requests of the run that closes, as far as it can.
func (a *armed) allTold() bool {
	for id := range a.nodes {
		if a.awaits(id) && !a.left(id) {
			return false
		}
	}
	return true
}

// awaits reports whether a source has not told yet of all its requests of the run that closes.
func (a *armed) awaits(id timeline.SourceID) bool {
	edge, known := a.loop.edge[id] // no source that has joined since
	return known && a.told[id] < edge && a.measures(id)
}

// measures reports whether something is measured by a source.
func (a *armed) measures(id timeline.SourceID) bool {
	for _, t := range a.loop.Targets {
		if t.Source == id {
			return true
		}
	}
	return false
}

// rearm judges the run that has ended, and waits for the next sign. What was due since then is in the ring.
func (a *armed) rearm() {
	l := a.loop
	edge := l.edge
	l.Armed.Ended(l.conclude(l.closes, a.ended))
	a.ring.Cut(edge)
	a.past = edge
	a.forget(a.measures)
	l.current, a.waits = current{}, true
	a.zero.Store(0)
	a.arm()
}
