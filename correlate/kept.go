package correlate

import (
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// A live run is judged again and again, and its Pods come and go: most of its direct targets have ended. What is said
// of one that has ended is kept, and said again while nothing that it rests on has changed.

// restsOn is all that a target's snapshot and what is published of it rest on, but for time that other targets or the
// prober show to be unobserved.
type restsOn struct {
	facts    int           // how often the track has changed
	stop     time.Duration // when measuring ended
	live     bool
	clocks   int // how often clocks had been compared
	backends int // how many names were known
	source   timeline.Source
}

// A published target is what a Timeline says of it, on the run's clock. It is never changed again.
type published struct {
	unobserved, unsure []windows.Period // of the snapshot, which the windows rest on too

	target model.Target
	evidence.Probed
}

// snapshotOf returns a track's snapshot, the one of last time if it has ended and nothing has changed.
func (t *Tracker) snapshotOf(tr *track, stop time.Duration) *snapshot {
	source := tr.target.Source
	on := restsOn{facts: tr.changes, stop: stop, live: t.live(), clocks: t.clocks.Len(),
		backends: len(t.backends[source]), source: t.sources[source]}
	if tr.kept != nil && tr.kept.on == on {
		return tr.kept
	}
	s := tr.snapshot(stop, on.live)
	s.on, tr.kept = on, nil
	if tr.ended != nil && tr.target.Kind == timeline.Direct && tr.tally.due > 0 {
		tr.kept = s
		tr.rest() // again: the last answers came after it had ended
	}
	return s
}

// publish says what was seen of a target.
func (t *Tracker) publish(s *snapshot) *published {
	if p := s.published; p != nil && slices.Equal(p.unobserved, s.unobserved) && slices.Equal(p.unsure, s.unsure) {
		return p
	}
	source := s.target.Source
	clock := t.aligned(source)
	own := s.windows(t.backends[source])
	firstLast := s.tally.edge(own) // before its windows are placed on the run's clock
	p := &published{
		unobserved: s.unobserved, unsure: s.unsure, target: s.publish(t.sources[source], clock),
		Probed: evidence.Probed{Outages: clock.windows(own), FirstLast: clock.firstLast(firstLast),
			Streaks: clock.streaks(&s.reading.Streaks), Rates: clock.intervals(s.reading.Intervals),
			Densest: s.reading.Densest(), Unwell: clock.unwell(&s.reading)},
	}
	if s.kept == s {
		s.published = p
	}
	return p
}
