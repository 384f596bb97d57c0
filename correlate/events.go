package correlate

import (
	"iter"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// events are the events of a run, in the order of the record. They are kept in chunks that are never copied: places
// refer to parts of them.
type events struct {
	chunks [][]timeline.Event
	n      int
}

// chunkOfEvents is how many events a chunk takes.
const chunkOfEvents = 256

func (l *events) add(e timeline.Event) {
	if l.n%chunkOfEvents == 0 {
		l.chunks = append(l.chunks, make([]timeline.Event, 0, chunkOfEvents))
	}
	last := &l.chunks[len(l.chunks)-1]
	*last = append(*last, e)
	l.n++
}

// from yields the events from the nth on, counted from 0.
func (l *events) from(n int) iter.Seq[*timeline.Event] {
	return func(yield func(*timeline.Event) bool) {
		for i := n; i < l.n; i++ {
			if !yield(&l.chunks[i/chunkOfEvents][i%chunkOfEvents]) {
				return
			}
		}
	}
}

func (l *events) all() iter.Seq[*timeline.Event] { return l.from(0) }

func (l *events) any(is func(*timeline.Event) bool) bool {
	for e := range l.all() {
		if is(e) {
			return true
		}
	}
	return false
}

// places are the events of a run on its clock. They are made once, and again only when something that was learned
// later changes them: a long run has many events, and is judged often.
type places struct {
	placer *cluster.Placer
	placed []model.Event // of the first events; what was published before is a part of it, or of an older one

	syncs, sources int // how often clocks had been compared, and how many sources were known
}

// place places the events that are new since the last call.
func (t *Tracker) place() []model.Event {
	p := &t.places
	anew := p.placer == nil || p.syncs != t.clocks.Len() || p.sources != len(t.sources)
	if !anew {
		for e := range t.events.from(len(p.placed)) {
			on, _ := t.onRunClock(e)
			anew = p.placer.Note(on) || anew
		}
	}
	if anew {
		t.forgetPlaces()
	}
	for e := range t.events.from(len(p.placed)) {
		p.placed = append(p.placed, t.placeNext(e))
	}
	placed := slices.Clip(p.placed)
	if gap, unwatched := t.unwatched(); unwatched {
		placed = append(placed, t.withSource(cluster.Place(t.meta.T0, []timeline.Event{gap})[0], gap.Source))
	}
	return placed
}

// forgetPlaces makes place start over, with all that is known now.
func (t *Tracker) forgetPlaces() {
	t.places = places{placer: cluster.NewPlacer(t.meta.T0), placed: make([]model.Event, 0, t.events.n),
		syncs: t.clocks.Len(), sources: len(t.sources)}
	for e := range t.events.all() {
		on, _ := t.onRunClock(e)
		t.places.placer.Note(on)
	}
}

// placeNext places the next event that has come, on the run's clock.
func (t *Tracker) placeNext(e *timeline.Event) model.Event {
	on, wide := t.onRunClock(e)
	placed := t.places.placer.Place(on)
	if placed.At.Bounded() {
		placed.At.Earliest -= wide
	}
	return t.withSource(placed, e.Source)
}

// withSource names who learned of an event, in a run with several sources.
func (t *Tracker) withSource(e model.Event, source timeline.SourceID) model.Event {
	if len(t.sources) > 1 {
		e.Source = t.sources[source].Name
	}
	return e
}

// onRunClock returns an event on the run's clock, seen as late as that can have been; wide is by how much earlier it
// can have been.
func (t *Tracker) onRunClock(e *timeline.Event) (on *timeline.Event, wide time.Duration) {
	if t.clocks.Shared(e.Source) {
		return e, 0
	}
	moved := *e
	seen := t.clocks.At(e.Source, e.Seen)
	moved.Seen = seen.Latest
	if e.Since > 0 {
		moved.Since = max(1, t.clocks.At(e.Source, e.Since).Earliest)
	}
	return &moved, seen.Latest - seen.Earliest
}

// unwatched returns the watch gap from the last sign of the prober's process to the end of a run that broke off. Its
// watches ended with it, and what they said last is not true for ever.
func (t *Tracker) unwatched() (timeline.Event, bool) {
	watching := func(e *timeline.Event) bool { return cluster.WatchedKind(e) != "" || e.Kind == timeline.WatchLane }
	_, lastSign := t.come()
	if t.ended == nil || !fromWorkstation(*t.ended) || t.end()-lastSign <= longestGap || !t.events.any(watching) {
		return timeline.Event{}, false
	}
	gap := timeline.Event{
		Since: lastSign, Seen: t.end(), Kind: timeline.WatchGap, Writer: "lapse",
		Detail: "nothing came any more from the prober, which also watched: " + t.ended.Detail,
	}
	for e := range t.events.all() {
		gap.ID = max(gap.ID, e.ID+1)
	}
	return gap, true
}
