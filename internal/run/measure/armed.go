package measure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"lapse/correlate/quantity"
	"lapse/internal/run/flight"
	"lapse/internal/run/live"
	"lapse/internal/run/signs"
	"lapse/timeline"
)

// Armed says how a run waits for the first sign of a disruption. Until then few requests are sent, and what they show
// is kept in memory for two minutes. The run begins where that does.
//
//	baseline   armed ........ a sign announces: full rate ... it begins: the run, from 2 min before ... quiet: its end
type Armed struct {
	IdleRate float64       // requests per second to each target, and to the control target
	Longest  time.Duration // from the start of this process to the end of the run; 0: no limit
	Begin    func() *live.Run
	Raise    func(full bool) // sets the rates of what the loop does not start at IdleRate itself; nil: nothing
	Say      func(line string)
}

const (
	// mostArmed is how long the full rate is kept after a sign that announces a disruption.
	mostArmed = 15 * time.Minute
	// standsStill is how long what is under way may show no change.
	standsStill = 5 * time.Minute
	// mostUnsettled is how long a disruption is measured that does not come to an end.
	mostUnsettled = 30 * time.Minute
)

// armed is the state of a run that waits, or has waited, for a sign. Its zero value is that of any other run.
type armed struct {
	ring  *flight.Ring // nil: the run has begun
	meta  timeline.Meta
	rates map[timeline.TargetID]float64 // the full ones
	full  bool                          // they are in force
	watch signs.Watch
	early signs.Sign    // the strongest one of the baseline
	soon  string        // what announced the disruption; empty: nothing has
	until time.Duration // when that is not waited for any more
	limit time.Duration // when the disruption is not waited for to settle any more

	shift flight.Shift
	zero  *atomic.Int64 // of shift, for other goroutines
}

// Now returns the instant on the run's clock. Any goroutine may call it.
func (l *Loop) Now() time.Duration { return l.Clock.Now() - l.Zero() }

// Zero returns the instant of [Loop.Clock] at which the run began: not 0 if it waited for a sign. Any goroutine may
// call it.
func (l *Loop) Zero() time.Duration { return time.Duration(l.armed.zero.Load()) }

// waitsForSign reports whether the run has not begun.
func (l *Loop) waitsForSign() bool { return l.armed.ring != nil }

// await begins to keep facts in memory.
func (l *Loop) await(meta timeline.Meta) {
	l.armed.ring, l.armed.meta, l.armed.rates = &flight.Ring{}, meta, map[timeline.TargetID]float64{}
	l.Live = live.New(nil) // for the baseline
}

// arm begins to wait for a sign, after the baseline.
func (l *Loop) arm() {
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
		"the run then begins up to two minutes before it", quantity.Number(l.Armed.IdleRate), limit))
	l.follow(l.armed.early)
}

// watchSigns takes in a fact, and follows it if it is a sign. One in the baseline is followed after it.
func (l *Loop) watchSigns(f timeline.Fact) {
	var sign signs.Sign
	switch f := f.(type) {
	case timeline.Event:
		sign = l.armed.watch.Event(f)
	case timeline.Batch:
		sign = l.armed.watch.Batch(f, func(id timeline.TargetID) bool { return l.Targets[id].Kind.Judged() })
	}
	switch {
	case l.Phase == timeline.PhaseArmed:
		l.follow(sign)
	case sign.Name == "deletion" || sign.Name == "eviction": // the first list has Pods that were ending before
	case sign.Class > l.armed.early.Class:
		l.armed.early = sign
	}
}

// follow raises the rate if a sign announces a disruption, and begins the run if the disruption has begun.
func (l *Loop) follow(sign signs.Sign) {
	if sign.Class < signs.Soon {
		return
	}
	l.setRates(true)
	if sign.Class == signs.Soon {
		if l.armed.soon == "" {
			l.Armed.Say("a sign: " + sign.Text + "; the full rate from now on")
		}
		l.armed.soon, l.armed.until = cmp.Or(l.armed.soon, sign.Text), l.Clock.Now()+mostArmed
		return
	}
	l.armed.limit = l.Clock.Now() + mostUnsettled
	l.beginRun()
	l.enter(timeline.PhaseMeasuring, "first sign: "+cmp.Or(l.armed.soon, sign.Text))
}

// beginRun begins the run, where the facts that are kept begin.
func (l *Loop) beginRun() {
	wall, now := timeline.StartClock().T0(), l.Clock.Now() // the wall clock may have been set since this process began
	facts, shift := l.armed.ring.Take(now)
	l.armed.ring, l.armed.shift = nil, shift
	l.armed.zero.Store(int64(shift.By))
	meta, here := l.armed.meta, l.source
	meta.T0 = wall.Add(shift.By - now)
	meta.Options.Baseline = now - shift.By
	here.T0 = meta.T0
	l.Live = l.Armed.Begin()
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
func (l *Loop) unsigned(reason string) string {
	was := l.Phase
	l.beginRun()
	if was != timeline.PhaseArmed {
		return reason
	}
	return cmp.Or(reason, "stopped") + ": there was no sign of a disruption until then"
}

// setRates sets the full rates, or those of a run that waits for a sign. Each change is a fact.
func (l *Loop) setRates(full bool) {
	if l.armed.full == full {
		return
	}
	l.armed.full = full
	for _, id := range slices.Sorted(maps.Keys(l.armed.rates)) {
		t, rate := l.Targets[id], l.armed.rates[id]
		if !full {
			rate = min(rate, l.Armed.IdleRate)
		}
		if t.Rate == rate {
			continue
		}
		l.Add(timeline.Event{
			Seen: l.Clock.Now(), Kind: timeline.RateChanged, From: perSecond(t.Rate), To: perSecond(rate),
			Object: timeline.Object{Kind: "Target", Name: t.Name},
		})
		l.Prober.SetRate(id, rate)
		t.Rate = rate
		l.Targets[id] = t
	}
	if l.Armed.Raise != nil {
		l.Armed.Raise(full)
	}
}

func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'g', -1, 64) }

// watchTime ends the run when nothing changes any more, or its time is over, and lowers the rate after a sign that no
// disruption followed.
func (l *Loop) watchTime(now time.Duration) {
	end := func(reason string) { l.Request(PhaseRequest{Phase: timeline.PhaseEnded, Reason: reason}) }
	switch over := l.Armed.Longest > 0 && now >= l.Armed.Longest; {
	case over && l.Phase == timeline.PhaseArmed:
		end(quantity.Span(l.Armed.Longest) + " (--max-duration) are over")
	case over:
		end("--max-duration was over before the disruption had settled")
	case l.Phase == timeline.PhaseArmed && l.armed.soon != "" && now >= l.armed.until:
		l.Armed.Say("nothing followed the sign for 15 minutes: the low rate again")
		l.armed.soon = ""
		l.setRates(false)
	case l.Phase == timeline.PhaseMeasuring && l.armed.watch.Settled(now, l.Settle):
		end("")
	case l.Phase == timeline.PhaseMeasuring && now-l.armed.watch.Last >= max(standsStill, l.Settle):
		end(fmt.Sprintf("%d Pods or rollouts were still under way, and nothing had changed for 5 minutes",
			l.armed.watch.UnderWay()))
	case l.Phase == timeline.PhaseMeasuring && now >= l.armed.limit:
		end("the disruption had not settled after 30 minutes")
	}
}
