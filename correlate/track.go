package correlate

import (
	"net/http"
	"slices"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// A track is what is known of one target. Counts and series take requests as they come; windows and
// gaps need them in the order they were sent, so the newest wait until the prober's watermark
// promises that none before them is missing.
type track struct {
	target timeline.Target // with its rate of now
	tally  tally
	series series

	measuredTime
	waiting []windows.Sample // handed on, but not read yet
	mark    time.Duration    // the watermark: every request due before it was handed on
	source  *reached         // how far the facts of its source have come
	refused map[uint16]int   // of a target of kind plane: answers that refuse the request, by status
	alike   int              // the number of the targets that send the same to the same Service; -1 if it is not judged
	changes int              // how often what is known of it changed
	kept    *snapshot        // of a target that has ended: see snapshotOf
	windows.Reading
}

// A measuredTime is when measuring a target began and ended, by the events that say so; nil where none does.
type measuredTime struct{ began, ended *moment }

// newTrack begins the track of a target that is judged as o says, in a run with a baseline. If answers is set, it also
// keeps which backends answered.
func newTrack(t timeline.Target, o Options, baseline time.Duration, answers bool) *track {
	return &track{target: t,
		series: series{timeout: t.Timeout, seldom: t.Interval() >= seldom},
		Reading: windows.NewReading(t, windows.Options{
			Join: o.Join, Slow: o.Slow, Resolution: o.Resolution, Baseline: baseline, Answers: answers,
		})}
}

// rerate notes that the target is asked at another rate from an instant of its source's clock on.
func (t *track) rerate(rate float64, from, join time.Duration) {
	t.changes++
	t.target.Rate = rate
	t.Rerate(t.target, from, join)
	t.series.packAll() // a seldom one has no open buckets
	t.series.seldom = t.target.Interval() >= seldom
}

func (t *track) add(r timeline.Request) {
	t.changes++
	r.Due = max(r.Due, 0)
	r.Sent = max(r.Sent, r.Due)
	r.Done = max(r.Done, r.Sent)
	t.tally.add(&r, t.Intervals.At(r.Due), t.target.Kind == timeline.Reused)
	if r.Class.Observed() {
		t.Intervals.Count(r.Due)
		t.series.add(&r)
	}
	if t.target.Kind == timeline.Plane && r.Class == timeline.OK && r.Code >= http.StatusBadRequest {
		if t.refused == nil {
			t.refused = map[uint16]int{}
		}
		t.refused[r.Code]++
	}
	t.waiting = append(t.waiting, windows.Sample{Sent: r.Sent, Done: r.Done, Due: r.Due, Seq: r.Seq,
		Backend: r.Backend, Class: r.Class, Delayed: r.Delayed})
}

// passed takes a watermark: everything sent before it is final, for Sent is never before Due.
func (t *track) passed(mark time.Duration) {
	if mark <= t.mark {
		return
	}
	t.mark = mark
	t.changes++
	t.sort()
	n := 0
	for n < len(t.waiting) && t.waiting[n].Sent < mark {
		n++
	}
	begin := t.begin()
	for i := range t.waiting[:n] {
		t.Take(&t.waiting[i], begin)
	}
	t.waiting = t.waiting[:copy(t.waiting, t.waiting[n:])]
}

// rest lets go of what is needed only while requests come.
func (t *track) rest() {
	t.series.rest()
	t.tally.rest()
	t.Rest()
	t.waiting = append([]windows.Sample(nil), t.waiting...)
}

// sort sorts what waits. It is nearly in order: requests come as they end, and all but the last batch is sorted.
// Insertion takes time for each pair that is out of order; where these are many, as after a stall, any other sort is
// quicker.
func (t *track) sort() {
	list, moves := t.waiting, 8*len(t.waiting)
	for i := 1; i < len(list); i++ {
		if !list[i].Before(&list[i-1]) {
			continue
		}
		sample, at := list[i], i
		for ; at > 0 && sample.Before(&list[at-1]); at-- {
			list[at] = list[at-1]
		}
		list[at] = sample
		if moves -= i - at; moves < 0 {
			slices.SortFunc(list, windows.InOrder)
			return
		}
	}
}

// begin returns when measuring began: at the first due instant, unless that came later than getting ready explains.
// Then what kept the prober from it is part of the run.
func (t *track) begin() time.Duration {
	// the opening of held connections is on record
	if t.began != nil && t.began.source == t.target.Source && t.tally.firstDue-t.began.at > gettingReady &&
		t.target.Kind != timeline.Held {
		return t.began.at
	}
	return t.tally.firstDue
}

// gettingReady is how long a prober may take until a target's first request is due.
const gettingReady = 150 * time.Millisecond

// known returns the instant up to which t is known to have been measured.
func (t *track) known() time.Duration { return max(t.mark, t.tally.lastSent) }

// A snapshot is a track read to its end, though more may come.
type snapshot struct {
	*track
	reading    windows.Reading  // the track's, read on
	measured   windows.Period   // from begin to the end of measuring
	unobserved []windows.Period // unobserved time, sorted and disjoint
	unsure     []windows.Period // unobserved, and gaps that are none but longer than usual
	tail       []windows.Period // unobserved time at the end; at most one
	live       bool

	on        restsOn
	published *published // nil before it was published, or if it is not kept
}

// snapshot reads on to the end of what is there. runEnd is when the run ended, or how far it has come;
// stop when the measuring of this target did.
func (t *track) snapshot(stop time.Duration, live bool) *snapshot {
	t.sort()
	s := &snapshot{track: t, reading: t.Reading.Clone(), live: live}
	begin := t.begin()
	for i := range t.waiting {
		s.reading.Take(&t.waiting[i], begin)
	}
	known := t.known()
	s.measured = windows.Period{From: t.begin(), To: max(stop, known)}
	grace := t.target.Timeout + time.Second
	early := stop-known > grace
	if live && !early {
		s.measured.To = known // what was due until then was sent; the rest is waiting for answers
	}
	s.tail = s.reading.Finish(s.measured.To, early)
	return s
}

// windows publishes the windows of a target.
func (s *snapshot) windows(backends []string) []model.Window {
	list := s.reading.Windows(&s.track.Reading, s.unobserved, s.unsure, s.tally.fastest, s.live, backends)
	for i := range list {
		list[i].Target = s.target.Name
	}
	return list
}

// coverage returns the share of the measured time that was observed; 0 if none was measured. Where the rate changed,
// it is the least of any rate: a long time before a disruption does not make up for what was missed of it.
func (s *snapshot) coverage(clock aligned) float64 {
	least, any := 1.0, false
	for _, part := range s.reading.Intervals.Parts(s.measured) {
		measured := clock.bracket(model.Instant{Earliest: part.From, Latest: part.To})
		if measured.Latest <= measured.Earliest {
			continue
		}
		unobserved := windows.Total(clock.periods(windows.Within(part, s.unobserved)))
		missed := float64(unobserved) / float64(measured.Latest-measured.Earliest)
		least, any = min(least, max(0, 1-missed)), true
	}
	if !any {
		return 0
	}
	return least
}

// publish returns the totals of a target, which source probed.
func (s *snapshot) publish(source timeline.Source, clock aligned) model.Target {
	t := &s.tally
	p := model.Target{
		Target: s.target, Source: source.Name, Node: source.Node,
		Sent: t.due - t.notSent(), OK: t.ok(), Failed: t.failed(), NotSent: t.notSent(), Late: t.late,
		Delayed: t.delayed.count(),
		Classes: t.classNames(), NewConnections: t.fresh,
		Measured: clock.bracket(model.Instant{Earliest: s.measured.From, Latest: s.measured.To}),
		Latency:  t.latency(),
	}
	p.Target.Source, p.Family, p.Timeout = 0, 0, 0
	measured := s.measured.To - s.measured.From
	p.GapLimit, p.Resolution = s.reading.Gaps.Limit(), measured
	p.SlowFrom, p.AlwaysSlow = s.reading.Slow.Slow, t.ok() > 0 && s.reading.AlwaysSlow(t.fastest)
	if p.Sent > 1 {
		p.Resolution = s.reading.Gaps.Resolution(s.measured.To, s.unobserved)
	}
	p.Coverage = s.coverage(clock)
	if measured > 0 {
		p.AchievedRate = float64(p.Sent) / measured.Seconds()
	}
	s.publishChange(&p, clock)
	return p
}

// publishChange says when the target's rate changed last, if it did while it was measured. What is said of its rate is
// of the time since then.
func (s *snapshot) publishChange(p *model.Target, clock aligned) {
	rates := s.reading.Intervals
	at, ok := rates.LastChange()
	if !ok || at <= s.measured.From || at >= s.measured.To {
		return
	}
	before := rates.Longest(s.measured.From, at-1)
	p.Rerated = &model.Rerated{
		At:         clock.bracket(model.Instant{Earliest: at, Latest: at}),
		Resolution: s.reading.Gaps.ResolutionSince(at, s.measured.To, s.unobserved),
	}
	if before > 0 {
		p.Rerated.From = float64(time.Second) / float64(before)
	}
	p.AchievedRate = float64(rates.Sent()) / (s.measured.To - at).Seconds()
}
