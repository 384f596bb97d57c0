package correlate

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"lapse/timeline"
)

func TestMemoryDoesNotGrowForHours(t *testing.T) {
	s := newSoak(200)
	tenMinutes := s.peakUntil(10 * time.Minute)
	twoHours := s.peakUntil(2 * time.Hour)
	// Slots are 16 times as wide at the end: in more of them there is something of every latency.
	if twoHours > tenMinutes*3/2 {
		t.Errorf("%d kB in the first ten minutes, %d in two hours", tenMinutes/1000, twoHours/1000)
	}
}

func TestASlotTakesLittleMemory(t *testing.T) {
	s := newSoak(2000)
	first := s.peakUntil(time.Minute)
	second := s.peakUntil(2 * time.Minute)
	slots := uint64(len(s.targets)) * uint64(time.Minute/bucketWidth)
	if perSlot := (second - first) / slots; perSlot > 200 {
		t.Errorf("%d bytes", perSlot)
	}
}

// A soak is a healthy run in virtual time, judged each second and shown each minute.
type soak struct {
	targets []timeline.Target
	tracker *Tracker
	seconds int
	empty   uint64 // what the heap held before
}

func newSoak(rate float64) *soak {
	s := &soak{tracker: NewTracker(Options{}), empty: heapInUse()}
	s.targets = []timeline.Target{
		{ID: 1, Name: "new", Kind: timeline.New, Rate: rate, Timeout: simTimeout},
		{ID: 2, Name: "control", Kind: timeline.Control, Rate: 100, Timeout: simTimeout},
	}
	s.tracker.Add(benchMeta)
	for _, target := range s.targets {
		s.tracker.Add(target)
	}
	return s
}

// peakUntil goes on until end, and returns the most that the tracker held at the end of a minute.
func (s *soak) peakUntil(end time.Duration) (peak uint64) {
	for s.seconds < int(end.Seconds()) {
		s.tracker.Add(healthySecond(s.targets, s.seconds))
		s.tracker.Brief()
		if s.seconds++; s.seconds%60 == 0 {
			s.tracker.Timeline()
			peak = max(peak, heapInUse()-s.empty)
		}
	}
	return peak
}

// healthySecond is a batch of one second's requests. Most are answered in a few hundred microseconds, some much later.
func healthySecond(targets []timeline.Target, second int) timeline.Batch {
	random := rand.New(rand.NewPCG(1, uint64(second)))
	start := time.Duration(second) * time.Second
	var b timeline.Batch
	for _, target := range targets {
		for due := start; due < start+time.Second; due += target.Interval() {
			r := timeline.Request{Target: target.ID, Seq: uint64(due / target.Interval()), Due: due,
				Sent: due + 30*time.Microsecond}
			r.Done = r.Sent + time.Duration(math.Exp(random.NormFloat64())*float64(300*time.Microsecond))
			b.Requests = append(b.Requests, r)
		}
		b.Watermarks = append(b.Watermarks, timeline.Watermark{Target: target.ID, Due: start + time.Second})
	}
	return b
}

// heapInUse is how many bytes the heap holds after a collection.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
