package align

import (
	"math/rand/v2"
	"testing"
	"time"

	"lapse/timeline"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

func TestInstantsArePlacedByTheExchangesAroundThem(t *testing.T) {
	for _, test := range []struct {
		name             string
		syncs            []timeline.Sync
		at               time.Duration
		earliest, latest time.Duration
	}{
		{"no exchange: the run's clock", nil, 7 * s, 7 * s, 7 * s},
		{"at an exchange", []timeline.Sync{{At: 1 * s, Min: 5 * s, Max: 5*s + ms}}, 1 * s, 6 * s, 6*s + ms},
		{"1 ms wider on both sides for each second after it", []timeline.Sync{{At: 1 * s, Min: 5 * s, Max: 5*s + ms}},
			3 * s, 8*s - 2*ms, 8*s + 3*ms},
		{"and before it", []timeline.Sync{{At: 5 * s, Min: -ms, Max: ms}}, 1 * s, 1*s - 5*ms, 1*s + 5*ms},
		{"all exchanges hold", []timeline.Sync{{At: 1 * s, Min: 0, Max: 10 * ms},
			{At: 2 * s, Min: 8 * ms, Max: 30 * ms}}, 1 * s, 1*s + 7*ms, 1*s + 10*ms},
		{"in any order", []timeline.Sync{{At: 2 * s, Min: 8 * ms, Max: 30 * ms}, {At: 1 * s, Min: 0, Max: 10 * ms}},
			1 * s, 1*s + 7*ms, 1*s + 10*ms},
		{"one that is upside down says nothing", []timeline.Sync{{At: 1 * s, Min: 0, Max: ms},
			{At: 1 * s, Min: ms, Max: 0}}, 1 * s, 1 * s, 1*s + ms},
		{"before a jump", []timeline.Sync{{At: 1 * s, Max: ms}, {At: 3 * s, Min: 60 * s, Max: 60*s + ms}}, 1 * s,
			1 * s, 1*s + ms},
		{"after it", []timeline.Sync{{At: 1 * s, Max: ms}, {At: 3 * s, Min: 60 * s, Max: 60*s + ms}}, 3 * s, 63 * s,
			63*s + ms},
		{"between: before or after it",
			[]timeline.Sync{{At: 1 * s, Max: ms}, {At: 3 * s, Min: 60 * s, Max: 60*s + ms}}, 2 * s, 2*s - ms,
			62*s + 2*ms},
		{"beside an exchange that fits both", []timeline.Sync{{At: 1 * s, Max: ms}, {At: 2 * s, Min: -s, Max: 90 * s},
			{At: 3 * s, Min: 60 * s, Max: 60*s + ms}}, 2 * s, 1 * s, 92 * s},
	} {
		var c Clocks
		for _, sync := range test.syncs {
			sync.Source = 3
			c.Add(sync)
		}
		got := c.At(3, test.at)
		if off := max((got.Earliest - test.earliest).Abs(), (got.Latest - test.latest).Abs()); off > 4 {
			t.Errorf("%s: %v is placed at %v to %v, want %v to %v", test.name, test.at, got.Earliest, got.Latest,
				test.earliest, test.latest)
		}
		if other := c.At(1, test.at); other.Earliest != test.at || other.Latest != test.at {
			t.Errorf("%s: another source's clock is placed by it: %v", test.name, other)
		}
	}
}

func TestJumpIsCountedWithHowMuchWasMissed(t *testing.T) {
	var c Clocks
	for _, sync := range []timeline.Sync{{Max: ms}, {At: 10 * s, Max: ms}, {At: 20 * s, Min: 300 * s, Max: 300*s + ms},
		{At: 30 * s, Min: 300 * s, Max: 300*s + ms}} {
		c.Add(sync)
	}
	sum, _ := c.Summary(0)
	if len(sum.Jumps) != 1 || sum.Exchanges != 4 || sum.Jumps[0].From != 10*s || sum.Jumps[0].To != 20*s ||
		sum.Jumps[0].Most < 300*s || sum.Jumps[0].Most > 300*s+2*ms {
		t.Errorf("%+v, want one jump of 300 s between 10 s and 20 s", sum)
	}
}

// The bracket holds the truth, whatever two clocks do within the limits of drift, with jumps between exchanges or
// without; and an instant of the run's clock is found again on the source's.
func FuzzBracketsHoldTheTruth(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, uint8(seed%3))
	}
	f.Fuzz(func(t *testing.T, seed uint64, jumps uint8) {
		random := rand.New(rand.NewPCG(seed, 1))
		upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
		const step = 100 * ms
		offsets := make([]time.Duration, 1200) // run − source, at each step of the source's clock
		offsets[0] = upTo(10*s) - 5*s
		speed := 0.0
		var jumped []int
		for range jumps % 3 {
			jumped = append(jumped, 100+random.IntN(1000))
		}
		var c Clocks
		for i := 1; i < len(offsets); i++ {
			if random.IntN(50) == 0 {
				speed = (2*random.Float64() - 1) * Drift
			}
			offsets[i] = offsets[i-1] + time.Duration(speed*float64(step))
			for _, at := range jumped {
				if at == i { // far enough to be seen
					offsets[i] += 10*s + upTo(300*s)
				}
			}
		}
		for i := random.IntN(50); i < len(offsets); i += 1 + random.IntN(100) {
			c.Add(timeline.Sync{At: time.Duration(i) * step, Min: offsets[i] - upTo(20*ms),
				Max: offsets[i] + upTo(20*ms)})
		}
		for i, offset := range offsets {
			at := time.Duration(i) * step
			truth := at + offset
			got := c.At(0, at)
			if len(jumped) > 0 && outside(&c, at) {
				continue // of a jump beyond all exchanges nothing is known
			}
			if truth < got.Earliest || got.Latest < truth {
				t.Fatalf("%v happened at %v and is placed at %v to %v", at, truth, got.Earliest, got.Latest)
			}
			if len(jumped) == 0 {
				if from := c.From(0, truth); from > at || at-from > got.Latest-got.Earliest+ms {
					t.Fatalf("the run's %v is %v of the source, found at %v", truth, at, from)
				}
			}
		}
	})
}

func outside(c *Clocks, at time.Duration) bool {
	syncs := c.of[0].syncs
	return at < syncs[0].at || syncs[len(syncs)-1].at < at
}
