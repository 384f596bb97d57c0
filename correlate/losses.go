package correlate

import (
	"slices"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// losses tell which time's facts are not on record. A source's batches count its requests, and events are numbered:
// where a number is left out, what lay between was lost. What is lost of a target was due between its watermarks
// before and after.
//
//	batch 0..99, mark 1s   batch 200..299, mark 3s   →   unobserved: 1s to 3s
type losses struct {
	sources map[timeline.SourceID]*sourceLosses
	targets map[timeline.TargetID]*targetLosses

	number uint32         // of the last event
	lost   uint32         // the number of an event that was lost after event; 0: none was
	event  timeline.Event // the last one that has the run's clock, as all of the watches have
}

type sourceLosses struct {
	next uint64        // the FirstSeq of its next batch
	lost int           // how many times batches were lost
	upTo time.Duration // the latest watermark of any target
}

type targetLosses struct {
	mark  time.Duration // the last watermark
	seen  int           // how many of the source's losses lie before it
	found []windows.Period
}

func newLosses() losses {
	return losses{sources: map[timeline.SourceID]*sourceLosses{}, targets: map[timeline.TargetID]*targetLosses{}}
}

// addBatch takes in the next batch.
func (l *losses) addBatch(b timeline.Batch) {
	s := l.sources[b.Source]
	if s == nil {
		s = &sourceLosses{}
		l.sources[b.Source] = s
	}
	jump := b.FirstSeq > s.next
	if jump {
		s.lost++
	}
	s.next = max(s.next, b.FirstSeq+uint64(len(b.Requests)))
	before := s.upTo
	for _, w := range b.Watermarks {
		t := l.targets[w.Target]
		known := t != nil
		if !known {
			t = &targetLosses{mark: before} // it began when batches were lost, or after that
			l.targets[w.Target] = t
		}
		if (known || jump) && t.seen < s.lost {
			t.found = append(t.found, windows.Period{From: t.mark, To: w.Due, Reason: model.ReasonLost})
		}
		t.seen, t.mark = s.lost, max(t.mark, w.Due)
		s.upTo = max(s.upTo, w.Due)
	}
}

// of returns what is lost of a target that was measured for that long. The watermark after the last loss may be lost
// too.
func (l *losses) of(target timeline.Target, measured windows.Period) []windows.Period {
	t, s := l.targets[target.ID], l.sources[target.Source]
	if t == nil {
		return nil
	}
	if s == nil || t.seen >= s.lost {
		return t.found
	}
	return append(slices.Clip(t.found), windows.Period{From: t.mark, To: measured.To, Reason: model.ReasonLost})
}

// before returns the watch gap in which events before e were lost, if any were. It has the number of one of them. What
// was lost before an event of another clock was seen until the next one of the run's: events come late from a prober.
func (l *losses) before(e timeline.Event, onRunClock bool) (gap timeline.Event, lost bool) {
	if l.number > 0 && e.ID > l.number+1 {
		l.lost = e.ID - 1
	}
	l.number = e.ID
	if !onRunClock {
		return gap, false
	}
	gap, lost = l.gap(e.Seen)
	l.lost, l.event = 0, e
	return gap, lost
}

// gap returns the watch gap up to an instant of the run's clock, if events were lost.
func (l *losses) gap(upTo time.Duration) (gap timeline.Event, lost bool) {
	return timeline.Event{
		ID: l.lost, Source: l.event.Source, Since: max(1, l.event.Seen), Seen: max(l.event.Seen, upTo),
		Kind: timeline.WatchGap, Writer: "lapse",
		Detail: "the record is damaged: what was seen meanwhile is lost",
	}, l.lost > 0
}
