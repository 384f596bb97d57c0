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
	event   timeline.Event // the last one
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

// before returns the watch gap in which events before e were lost, if any were. It has the number of one of them.
func (l *losses) before(e timeline.Event) (gap timeline.Event, lost bool) {
	last := l.event
	l.event = e
	if last.ID == 0 || e.ID <= last.ID+1 {
		return gap, false
	}
	return timeline.Event{
		ID: e.ID - 1, Source: e.Source, Since: last.Seen, Seen: max(last.Seen, e.Seen), Kind: timeline.WatchGap,
		Writer: "lapse",
		Detail: "the record is damaged: what was seen meanwhile is lost",
	}, true
}
