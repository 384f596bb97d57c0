package correlate

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// A fault is known to the last nanosecond, and so is when the prober stood still. This file holds what gates go by
// against that truth: whatever was stopped when, a gate's bar has to hold it.

const (
	truthInterval = 10 * time.Millisecond
	truthJoin     = time.Second
	truthTimeout  = 800 * time.Millisecond
)

// A known is a run of which all is known: outages of every request, and stops of the prober.
type known struct {
	end      time.Duration
	answer   time.Duration    // how long answers and refusals take; the Service decides halfway
	outages  []windows.Period // by time, disjoint
	stops    []windows.Period // by time, disjoint
	unsent   string           // what becomes of requests due in a stop: "notsent", "local", or "" for nothing
	reported bool             // the prober says that it was stopped

	resolution time.Duration // --resolution
}

func inside(of []windows.Period, at time.Duration) bool {
	return slices.ContainsFunc(of, func(p windows.Period) bool { return p.From <= at && at < p.To })
}

// fails reports whether a request due then would fail, had it been sent.
func (k known) fails(due time.Duration) bool { return inside(k.outages, due+k.answer/2) }

// missed reports whether the prober stood still when a request was due, or when its outcome came.
func (k known) missed(due time.Duration) bool {
	return inside(k.stops, due) || inside(k.stops, due+k.answer)
}

// dues calls f for every request that is due.
func (k known) dues(f func(due time.Duration)) {
	for due := time.Duration(0); due < k.end; due += truthInterval {
		f(due)
	}
}

func (k known) run() timeline.Run {
	var requests []timeline.Request
	k.dues(func(due time.Duration) {
		r := timeline.Request{Target: 1, Seq: uint64(due / truthInterval), Due: due, Sent: due, Done: due + k.answer}
		switch {
		case k.missed(due) && k.unsent == "":
			return
		case k.missed(due):
			r.Class, r.Done = timeline.NotSent, due
			if k.unsent == "local" {
				r.Class = timeline.Local
			}
		case k.fails(due):
			r.Class = timeline.Refused
		}
		requests = append(requests, r)
	})
	events := []timeline.Event{
		{Kind: timeline.TargetChanged, To: "measuring", Object: timeline.Object{Kind: "Target", Name: "new"}},
		{Seen: k.end, Kind: timeline.RunPhase, To: "ended"},
	}
	for _, s := range k.stops {
		if k.reported {
			events = append(events, timeline.Event{Kind: timeline.ProberStall, Since: s.From, Seen: s.To})
		}
	}
	return timeline.Run{
		Meta: timeline.Meta{Options: timeline.Options{Join: truthJoin, Slow: time.Minute, Timeout: truthTimeout,
			Resolution: k.resolution}},
		Targets: []timeline.Target{{ID: 1, Name: "new", Kind: timeline.New, Rate: float64(time.Second / truthInterval),
			Timeout: truthTimeout}},
		Events:  events,
		Batches: func(yield func(timeline.Batch, error) bool) { yield(timeline.Batch{Requests: requests}, nil) },
	}
}

// bar is what a gate on a metric goes by.
func bar(t *testing.T, tl *model.Timeline, metric string) model.Range {
	t.Helper()
	m, _ := verdict.MetricNamed(metric)
	value, measured := m.Value(tl, &tl.Verdict)
	if !measured {
		t.Fatalf("%s was not measured", metric)
	}
	return value
}

// One outage of 2.8 s, in a run of 10 minutes, amid which the prober was stopped for 1.5 s.
func TestOutageThatAStopOfTheProberCutsInTwoMayBeOne(t *testing.T) {
	k := known{
		end: 10 * time.Minute, answer: ms, unsent: "notsent", reported: true,
		outages: []windows.Period{{From: 300 * time.Second, To: 302800 * ms}},
		stops:   []windows.Period{{From: 300600 * ms, To: 302100 * ms}},
	}
	tl := analyze(t, k.run())
	if len(tl.Windows) != 2 {
		t.Fatalf("%d windows, want one on either side of the stop: %+v", len(tl.Windows), tl.Windows)
	}
	for expr, want := range map[string]model.GateOutcome{
		"window.longest>2.5s": model.GateUndecided, "window.longest>2.82s": model.GatePass,
		"window.longest>600ms":  model.GateFail,
		"blackout.longest>2.5s": model.GateUndecided, "blackout.longest>2.82s": model.GatePass,
		"blackout.longest>600ms": model.GateFail,
		"downtime.total>2.5s":    model.GateUndecided, "downtime.total>2.82s": model.GatePass,
		"downtime.total>1.2s": model.GateFail,
		"windows>1":           model.GateUndecided, "windows>0": model.GateFail, "windows>2": model.GatePass,
	} {
		if got := outcome(t, tl, expr); got.Outcome != want {
			t.Errorf("%s: %s with %+v, want %s", expr, got.Outcome, got.Value, want)
		}
	}
}

// A draw is of what is at random.
type draw struct{ *rand.Rand }

func (d draw) between(from, to time.Duration) time.Duration {
	return from + time.Duration(d.Int64N(int64(to-from)))
}

// run draws outages close together or far apart, and stops at their edges or anywhere.
func (d draw) run() known {
	k := known{
		end: 12 * time.Second, answer: d.between(ms, 5*truthInterval),
		unsent: []string{"notsent", "local", ""}[d.IntN(3)], reported: d.IntN(2) == 0,
	}
	k.outages = d.outages(k.end - truthJoin)
	for range 1 + d.IntN(4) {
		stop := d.stop(k)
		if stop.To < k.end-truthJoin && !slices.ContainsFunc(k.stops, func(s windows.Period) bool {
			return s.From <= stop.To && stop.From <= s.To
		}) {
			k.stops = append(k.stops, stop)
		}
	}
	slices.SortFunc(k.stops, func(a, b windows.Period) int { return cmp.Compare(a.From, b.From) })
	return k
}

// outages draws some that begin by an instant: so far apart that a request is answered wholly between two, but never
// so far that chance decides whether they are joined.
func (d draw) outages(by time.Duration) []windows.Period {
	var all []windows.Period
	at := d.between(truthJoin, 4*time.Second)
	for n := 1 + d.IntN(3); n > 0 && at < by; n-- {
		o := windows.Period{From: at, To: at + d.between(5*truthInterval, 2500*ms)}
		all = append(all, o)
		at = o.To + d.between(13*truthInterval, truthJoin/2)
		if d.IntN(2) == 0 {
			at = o.To + d.between(3*truthJoin/2, 2*truthJoin)
		}
	}
	return all
}

// stop draws one that just hides an outage, one at an edge, or any.
func (d draw) stop(k known) windows.Period {
	o := k.outages[d.IntN(len(k.outages))]
	from := d.between(0, k.end)
	switch d.IntN(4) {
	case 0:
		return windows.Period{From: o.From + d.between(-truthInterval, k.answer/2),
			To: o.To + d.between(-k.answer/2, truthInterval)}
	case 1, 2:
		from = d.between(o.From-truthJoin, o.To)
	}
	return windows.Period{From: from, To: from + d.between(2*truthInterval, 1500*ms)}
}

// A trueRange is what a gate's bar has to hold: at its lower end no more than most, at its upper one no less than
// least.
type trueRange struct{ least, most float64 }

func truly(d time.Duration) trueRange { return trueRange{float64(d), float64(d)} }

// truths are what gates on k are about. An outage that slipped through a gap counts as the longest, but not in the
// total: a total is of what was found, or may lie in unobserved time.
func (k known) truths() map[string]trueRange {
	limit := timeline.GapLimit(k.run().Targets[0].Interval(), k.resolution)
	slipped := slices.DeleteFunc(slices.Clone(k.outages), func(o windows.Period) bool { return !k.slipped(o, limit) })
	failed, sent, lost := 0, 0, 0
	k.dues(func(due time.Duration) {
		if k.fails(due) && !inside(slipped, due+k.answer/2) {
			lost++
		}
		if k.missed(due) {
			return
		}
		sent++
		if k.fails(due) {
			failed++
		}
	})
	longest, total := time.Duration(0), time.Duration(0)
	for _, o := range k.outages { // the last one may outlast the run
		length := o.To - o.From
		longest, total = max(longest, length), total+length
	}
	windows, window := k.windows(), truly(longest)
	seen := 0
	for _, w := range windows {
		window.most = max(window.most, float64(w.whole.To-w.whole.From))
		window.least = max(window.least, float64(w.seen.To-w.seen.From))
		if w.seen.To > 0 {
			seen++
		}
	}
	return map[string]trueRange{
		"failed":           {float64(failed), float64(failed)},
		"errors.rate":      {float64(failed) / float64(sent), float64(failed) / float64(sent)},
		"downtime.total":   {float64(lost) * float64(truthInterval), float64(total)},
		"window.longest":   window,
		"blackout.longest": truly(longest),
		"windows":          {float64(seen), float64(seen)},
		"latency.p99":      truly(k.answer),
		"coverage":         k.coverage(limit),
	}
}

// coverage is known but for what a stop takes before and after it: a request in flight, and waiting for the next one.
// Stops no longer than a gap may be are none, but that they may be with what they take, and with the next ones.
func (k known) coverage(limit time.Duration) trueRange {
	least, most := time.Duration(0), time.Duration(0) // unobserved
	about := k.answer + 2*truthInterval
	stood := windows.Period{From: -about, To: -about} // this stop and those close before it
	for i, s := range k.stops {
		if s.To-s.From > limit {
			least += s.To - s.From - about
		}
		if s.From-stood.To > about {
			stood.From = s.From
		}
		stood.To = s.To
		last := i+1 == len(k.stops) || k.stops[i+1].From-s.To > about
		if length := stood.To - stood.From + about; last && length > limit {
			most += length
		}
	}
	share := func(d time.Duration) float64 { return 1 - float64(d)/float64(k.end) }
	return trueRange{share(most), share(least)}
}

// slipped reports whether no request met an outage, and those before and after it are no further apart than a gap may
// be.
func (k known) slipped(o windows.Period, limit time.Duration) bool {
	before, after, met := time.Duration(0), k.end, false
	k.dues(func(due time.Duration) {
		switch at := due + k.answer/2; {
		case k.missed(due):
		case at < o.From:
			before = due
		case at < o.To:
			met = true
		default:
			after = min(after, due)
		}
	})
	return !met && after-before <= limit+k.answer
}

// A joinedOutages is outages that are one window: whole, and from the first to the last failure that was seen of it.
type joinedOutages struct{ whole, seen windows.Period }

// windows joins outages as requests would have, had none been missed.
func (k known) windows() []joinedOutages {
	var all []joinedOutages
	for _, o := range k.outages {
		if n := len(all); n > 0 && o.From-all[n-1].whole.To < truthJoin {
			all[n-1].whole.To = o.To
		} else {
			all = append(all, joinedOutages{whole: o})
		}
	}
	k.dues(func(due time.Duration) {
		if !k.fails(due) || k.missed(due) {
			return
		}
		i := slices.IndexFunc(all, func(w joinedOutages) bool { return due+k.answer/2 < w.whole.To })
		if all[i].seen.To == 0 {
			all[i].seen.From = due
		}
		all[i].seen.To = due
	})
	return all
}

func TestBarsOfGatesHoldTheTruthWheneverTheProberStood(t *testing.T) {
	t.Parallel()
	runs := seeds(1200)
	for _, resolution := range []time.Duration{10 * ms, 50 * ms, 200 * ms} {
		cut := 0
		for seed := range uint64(runs) {
			k := draw{rand.New(rand.NewPCG(seed, 1))}.run()
			k.resolution = resolution
			tl := analyze(t, k.run())
			verdict.Judge(tl, nil)
			for metric, truth := range k.truths() {
				if got := bar(t, tl, metric); got.Min > truth.most || got.AtMost() < truth.least {
					t.Errorf("--resolution %v, seed %d: %s is %+v, which does not hold %+v\n%+v\nwindows "+
						"%+v\nunobserved %+v", resolution, seed, metric, got, truth, k, tl.Windows, tl.Unobserved)
				}
			}
			if len(tl.Windows) > len(k.windows()) {
				cut++
			}
		}
		if cut < runs/17 {
			t.Errorf("--resolution %v: stops cut a window in two in %d runs only", resolution, cut)
		}
	}
}
