package correlate

import (
	"time"

	"lapse/correlate/model"
	"lapse/correlate/windows"
	"lapse/timeline"
)

// Slots are 100 ms wide. Once a run needs more than maxSlots of them they merge in pairs, so that an
// hour still fits on a screen and in memory.
const (
	slotWidth = 100 * time.Millisecond
	maxSlots  = 3000
)

// A slot counts the requests of one target that were sent in it. There are thousands for each target,
// so it is small.
type slot struct {
	sent, failed uint32
	latency      model.Histogram              // of ok requests, but for those in a tray
	classes      *[timeline.NumClasses]uint32 // failures by class; nil while there are none
}

// fail counts failed requests.
func (s *slot) fail(class timeline.Class, n uint32) {
	if s.classes == nil {
		s.classes = new([timeline.NumClasses]uint32)
	}
	s.failed += n
	s.classes[class] += n
}

// merge adds what o counted.
func (s *slot) merge(o slot) {
	s.sent += o.sent
	s.latency = s.latency.Plus(o.latency)
	if o.classes == nil {
		return
	}
	for class, n := range o.classes {
		if n > 0 {
			s.fail(timeline.Class(class), n)
		}
	}
}

// A tray counts the ok requests of one slot by latency, until they are packed into it.
type tray struct {
	slot      int
	low, high int // counts outside [low, high) are 0; high is 0 if all are
	counts    [model.LatencySlots]uint32
}

func (t *tray) add(latencySlot int) {
	if t.high == 0 {
		t.low = latencySlot
	}
	t.low, t.high = min(t.low, latencySlot), max(t.high, latencySlot+1)
	t.counts[latencySlot]++
}

// empty returns what is in the tray, and clears it.
func (t *tray) empty() model.Histogram {
	var p model.HistogramPacker
	for i := t.low; i < t.high; i++ {
		if t.counts[i] > 0 {
			p.Put(i, int(t.counts[i]))
		}
	}
	clear(t.counts[t.low:t.high])
	t.low, t.high = 0, 0
	return p.Histogram()
}

// A series is one target's slots from T0 on.
//
// Requests come in the order of their answers, so that a few slots next to each other take all of
// them. These have a tray each: slot i has tray i modulo their number, until another slot needs it.
type series struct {
	width time.Duration
	slots []slot
	trays []tray // none before the first ok request
}

// maxTrays is how many slots can be counted in without packing.
const maxTrays = 16

// add counts an observed request.
func (s *series) add(r *timeline.Request) {
	i := s.index(r.Sent)
	s.slots[i].sent++
	if r.Class == timeline.OK {
		if !r.Delayed {
			s.tray(i).add(model.LatencySlot(r.Latency()))
		}
		return
	}
	s.slots[i].fail(r.Class, 1)
}

// index returns which slot instant t lies in, widening slots until there are few enough.
func (s *series) index(t time.Duration) int {
	s.width = max(s.width, slotWidth)
	t = max(t, 0)
	for t/s.width >= maxSlots {
		s.widen(2 * s.width)
	}
	i := int(t / s.width)
	for len(s.slots) <= i {
		s.slots = append(s.slots, slot{})
	}
	return i
}

// tray returns the tray of slot i.
func (s *series) tray(i int) *tray {
	if s.trays == nil {
		s.trays = make([]tray, maxTrays)
	}
	t := &s.trays[i%maxTrays]
	if t.slot != i {
		s.pack(t)
		t.slot = i
	}
	return t
}

// pack empties a tray into its slot.
func (s *series) pack(t *tray) {
	if t.high > 0 {
		of := &s.slots[t.slot]
		of.latency = of.latency.Plus(t.empty())
	}
}

func (s *series) packAll() {
	for i := range s.trays {
		s.pack(&s.trays[i])
	}
}

// widen merges slots until they are width wide, which is their width doubled some times.
func (s *series) widen(width time.Duration) {
	s.packAll()
	s.width = max(s.width, slotWidth)
	for s.width < width {
		half := (len(s.slots) + 1) / 2
		for i := range half {
			pair := s.slots[2*i]
			if 2*i+1 < len(s.slots) {
				pair.merge(s.slots[2*i+1])
			}
			s.slots[i] = pair
		}
		clear(s.slots[half:])
		s.slots = s.slots[:half]
		s.width *= 2
	}
}

// publish returns the first n slots as they stand, with the share of each that dark covers.
func (s *series) publish(n int, dark []windows.Period) model.BucketSeries {
	b := model.BucketSeries{
		Sent:       make([]int, n),
		Failed:     make([]int, n),
		Unobserved: make([]float64, n),
		Latency:    make([]model.Histogram, n),
	}
	s.packAll()
	for i, slot := range s.slots {
		b.Sent[i], b.Failed[i], b.Latency[i] = int(slot.sent), int(slot.failed), slot.latency
		noteClasses(&b, i, slot.classes)
	}
	for _, d := range dark {
		for i := int(d.From / s.width); i < n && time.Duration(i)*s.width < d.To; i++ {
			from := time.Duration(i) * s.width
			b.Unobserved[i] += float64(min(d.To, from+s.width)-max(d.From, from)) / float64(s.width)
		}
	}
	return b
}

// noteClasses notes what classes slot i's failures are of.
func noteClasses(b *model.BucketSeries, i int, classes *[timeline.NumClasses]uint32) {
	if classes == nil {
		return
	}
	if b.Classes == nil {
		b.Classes = map[string]model.SparseCounts{}
	}
	for class, n := range classes {
		if n > 0 {
			name := timeline.Class(class).String()
			b.Classes[name] = append(b.Classes[name], i, int(n))
		}
	}
}

// slotsWide is the smallest width a slot can have that brings end within maxSlots, and holds two
// requests of a target whose interval is the longest that matters.
func slotsWide(end, longest time.Duration) time.Duration {
	width := slotWidth
	for end/width >= maxSlots || width < 2*longest && width < time.Hour {
		width *= 2
	}
	return width
}
