package correlate

import (
	"cmp"
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
func (p *places) place(all *events, f *sourceFacts, t0 time.Time) []model.Event {
	again := p.placer == nil || p.syncs != f.clocks.Len() || p.sources != len(f.sources)
	if !again {
		for e := range all.from(len(p.placed)) {
			on, _ := f.onRunClock(e)
			again = p.placer.Note(on) || again
		}
	}
	if again {
		p.forget(all, f, t0)
	}
	for e := range all.from(len(p.placed)) {
		p.placed = append(p.placed, p.next(e, f))
	}
	return slices.Clip(p.placed)
}

// forget makes place start over, with all that is known now.
func (p *places) forget(all *events, f *sourceFacts, t0 time.Time) {
	*p = places{
		placer:  cluster.NewPlacer(t0),
		placed:  make([]model.Event, 0, all.n),
		syncs:   f.clocks.Len(),
		sources: len(f.sources),
	}
	for e := range all.all() {
		on, _ := f.onRunClock(e)
		p.placer.Note(on)
	}
}

// next places the next event that has come, on the run's clock.
func (p *places) next(e *timeline.Event, f *sourceFacts) model.Event {
	on, wide := f.onRunClock(e)
	placed := p.placer.Place(on)
	if placed.At.Bounded() {
		placed.At.Earliest -= wide
	}
	return f.withSource(placed, e.Source)
}

// place returns the run's events on its clock.
func (t *Tracker) place() []model.Event {
	placed := t.places.place(&t.events, &t.sourceFacts, t.meta.T0)
	add := func(gap timeline.Event, found bool) {
		if found {
			placed = append(placed, t.withSource(cluster.Place(t.meta.T0, []timeline.Event{gap})[0], gap.Source))
		}
	}
	add(t.losses.gap(t.end()))
	add(t.unwatched())
	return placed
}

// withSource names who learned of an event, in a run with several sources.
func (f *sourceFacts) withSource(e model.Event, source timeline.SourceID) model.Event {
	if len(f.sources) > 1 {
		e.Source = f.sources[source].Name
	}
	return e
}

// onRunClock returns an event on the run's clock, seen as late as that can have been; wide is by how much earlier it
// can have been.
func (f *sourceFacts) onRunClock(e *timeline.Event) (on *timeline.Event, wide time.Duration) {
	if f.clocks.Shared(e.Source) {
		return e, 0
	}
	moved := *e
	seen := f.clocks.At(e.Source, e.Seen)
	moved.Seen = seen.Latest
	if e.Since != 0 {
		moved.Since = cmp.Or(f.clocks.At(e.Source, e.Since).Earliest, -1) // 0 is no lower bound
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
