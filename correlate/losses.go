package correlate

import (
	"time"

	"lapse/correlate/model"
	"lapse/correlate/windows"
	"lapse/timeline"
)

// losses tell which time's facts are not on record. A source's batches count its requests, and events are numbered: where a
// number is left out, what lay between was lost. What is lost of a target was due between its watermarks before and after.
//
//	batch 0..99, mark 1s   batch 200..299, mark 3s   →   unobserved: 1s to 3s
type losses struct {
	next  map[timeline.SourceID]uint64        // the FirstSeq of each source's next batch
	lost  map[timeline.SourceID]int           // how many times batches of a source were lost
	upTo  map[timeline.SourceID]time.Duration // the latest watermark of any of its targets
	seen  map[timeline.TargetID]int           // how many of those times lie before the target's last watermark
	marks map[timeline.TargetID]time.Duration // that watermark
	found map[timeline.TargetID][]windows.Period
	event timeline.Event // the last one
}

func newLosses() losses {
	return losses{
		next: map[timeline.SourceID]uint64{}, lost: map[timeline.SourceID]int{}, upTo: map[timeline.SourceID]time.Duration{},
		seen: map[timeline.TargetID]int{}, marks: map[timeline.TargetID]time.Duration{}, found: map[timeline.TargetID][]windows.Period{},
	}
}

// addBatch takes in the next batch.
func (l *losses) addBatch(b timeline.Batch) {
	jump := b.FirstSeq > l.next[b.Source]
	if jump {
		l.lost[b.Source]++
	}
	l.next[b.Source] = max(l.next[b.Source], b.FirstSeq+uint64(len(b.Requests)))
	before := l.upTo[b.Source]
	for _, w := range b.Watermarks {
		from, known := l.marks[w.Target]
		if !known {
			from = before // it began when batches were lost, or after that
		}
		if (known || jump) && l.seen[w.Target] < l.lost[b.Source] {
			l.found[w.Target] = append(l.found[w.Target], windows.Period{From: from, To: w.Due, Reason: model.ReasonLost})
		}
		l.seen[w.Target], l.marks[w.Target] = l.lost[b.Source], max(from, w.Due)
		l.upTo[b.Source] = max(l.upTo[b.Source], w.Due)
	}
}

// of returns what is lost of a target that was measured so long. The watermark after the last loss may be lost too.
func (l *losses) of(target timeline.Target, measured windows.Period) []windows.Period {
	found := l.found[target.ID]
	if from, known := l.marks[target.ID]; known && l.seen[target.ID] < l.lost[target.Source] {
		found = append(found[:len(found):len(found)], windows.Period{From: from, To: measured.To, Reason: model.ReasonLost})
	}
	return found
}

// before returns the watch gap in which events before e were lost, if any were. It has the number of one of them.
func (l *losses) before(e timeline.Event) (gap timeline.Event, lost bool) {
	last := l.event
	l.event = e
	if last.ID == 0 || e.ID <= last.ID+1 {
		return gap, false
	}
	return timeline.Event{
		ID: e.ID - 1, Source: e.Source, Since: last.Seen, Seen: max(last.Seen, e.Seen), Kind: timeline.WatchGap, Writer: "lapse",
		Detail: "the record is damaged: what was seen meanwhile is lost",
	}, true
}
