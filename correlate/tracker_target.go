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

	begun   *time.Duration // when the prober was told to measure it; nil if that is not on record
	waiting []flight       // handed on, but not read yet
	mark    time.Duration  // the watermark: every request due before it was handed on
	reading
}

// newTrack begins the track of a target that is judged as o says, in a run with a baseline.
func newTrack(t timeline.Target, o Options, baseline time.Duration) *track {
	return &track{target: t, interval: interval(t), reading: newReading(t, readingOptions{join: o.Join, slow: o.Slow, resolution: o.Resolution, baseline: baseline})}
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
		t.take(r, t.begin())
	}
	t.waiting = t.waiting[:copy(t.waiting, t.waiting[n:])]
}

func (t *track) sort() {
	if !slices.IsSortedFunc(t.waiting, inOrder) {
		slices.SortFunc(t.waiting, inOrder)
	}
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
		s.reading.take(r, t.begin())
	}
	known := t.known()
	s.measured = period{from: t.begin(), to: max(stop, known)}
	grace := t.target.Timeout + time.Second
	early := stop-known > grace
	if live && !early {
		s.measured.to = known // what was due until then was sent; the rest is waiting for answers
	}
	s.tail = s.reading.finish(s.measured.to, early)
	return s
}

// windows publishes the windows of a target.
func (s *sight) windows(backends []string) []Window {
	list := s.reading.windows(&s.track.reading, s.dark, s.unsure, s.tally.fastest, s.live, backends)
	for i := range list {
		list[i].Target = s.target.Name
	}
	return list
}

// publish returns the totals of a target.
func (s *sight) publish() Target {
	f, t := s.target, &s.tally
	p := Target{
		ID: f.ID, Name: f.Name, Kind: f.Kind, URL: f.URL, Source: f.Source, Node: f.Node, Service: f.Service, Port: f.Port,
		Connections: f.Connections,
		Pod:         f.Pod, PodUID: f.PodUID, PodNode: f.PodNode, Rate: f.Rate,
		Sent: t.due - t.notSent(), OK: t.ok(), Failed: t.failed(), NotSent: t.notSent(), Late: t.late,
		Classes: classNames(&t.classes), NewConnections: t.fresh,
		Measured: Instant{Earliest: s.measured.from, Latest: s.measured.to},
		Latency:  t.quantiles(),
	}
	if f.Addr.IsValid() {
		p.Addr = f.Addr.String()
	}
	measured := s.measured.to - s.measured.from
	p.GapLimit, p.Resolution = s.reading.watch.limit, measured
	p.SlowFrom, p.AlwaysSlow = s.reading.slow.slow, t.ok() > 0 && s.reading.alwaysSlow(t.fastest)
	if p.Sent > 1 {
		p.Resolution = s.reading.watch.resolution(s.measured.to, s.dark)
	}
	if measured > 0 {
		p.Coverage = 1 - float64(total(s.dark))/float64(measured)
		p.AchievedRate = float64(p.Sent) / measured.Seconds()
	}
	return p
}
