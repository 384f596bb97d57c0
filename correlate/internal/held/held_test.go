package held

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

const second, ms = time.Second, time.Millisecond

// target holds 4 connections, with a heartbeat on each every 2 s.
var target = timeline.Target{ID: 1, Name: "held", Kind: timeline.Held, Connections: 4, Rate: 2, Timeout: 800 * ms}

func judge(end time.Duration, changes ...timeline.HeldChange) (model.Held, []model.HeldCut) {
	var l Ledger
	for i, c := range changes {
		l.Add(uint64(i), c)
	}
	return l.Judge(Options{Target: target, Join: second, End: end, Backend: func(id uint16) string {
		return []string{"", "a", "b"}[id]
	}, Peer: func(uint16) string {
		return ""
	}})
}

func opened(conn uint32, at time.Duration, backend uint16) timeline.HeldChange {
	return timeline.HeldChange{Conn: conn, Kind: timeline.HeldOpened, From: at - ms, At: at, Backend: backend}
}

func cutAt(conn uint32, at time.Duration, class timeline.Class) timeline.HeldChange {
	return timeline.HeldChange{Conn: conn, Kind: timeline.HeldCut, Class: class, From: at - 1500*ms,
		Answered: at - 1499*ms, At: at, Backend: 1}
}

func failedAt(conn uint32, at time.Duration) timeline.HeldChange {
	return timeline.HeldChange{Conn: conn, Kind: timeline.HeldFailed, Class: timeline.Refused, From: at, At: at + ms}
}

// Cuts that are less than Join after another's connection stood again share a window; one that is later has one of
// its own.
//
//	conn 0   cut 10 s ── back 10.5 s
//	conn 1        cut 11.4 s ── back 11.41 s
//	conn 2                                     cut 13 s
func TestCutsShareAWindowUntilAllHaveBeenBackForAWhile(t *testing.T) {
	h, cuts := judge(20*second,
		opened(0, ms, 1), opened(1, ms, 1), opened(2, ms, 1), opened(3, ms, 2),
		cutAt(0, 10*second, timeline.EOF), failedAt(0, 10*second), opened(0, 10*second+500*ms, 2),
		cutAt(1, 11*second+400*ms, timeline.Reset), opened(1, 11*second+410*ms, 2),
		cutAt(2, 13*second, timeline.EOF))
	if len(h.Windows) != 2 || h.Windows[0].Failed != 2 || h.Windows[1].Failed != 1 || h.Windows[0].Attempts != 3 ||
		h.Windows[0].Refused["refused"] != 1 {
		t.Fatalf("windows %+v", h.Windows)
	}
	first := h.Windows[0]
	if first.Start != (model.Instant{Earliest: 8500 * ms, Latest: 10 * second}) ||
		first.End != (model.Instant{Earliest: 11*second + 409*ms, Latest: 11*second + 410*ms}) ||
		*first.Back != (model.Length{Min: 10 * ms, Max: 500 * ms}) {
		t.Errorf("start %v, end %v, back %v", first.Start, first.End, first.Back)
	}
	if last := h.Windows[1]; !last.Open.End || last.Missing != 1 || last.Back != nil || last.End.Latest != 20*second {
		t.Errorf("%+v: its connection did not stand again", last)
	}
	if h.Cut != 3 || h.Unwarned != 3 || h.Missing != 1 || h.Standing != 3 || h.Before["a"] != 3 ||
		h.Before["b"] != 1 || h.After["b"] != 3 || len(cuts) != 3 {
		t.Errorf("%+v", h)
	}
}

// A cut that a stop of the prober may have led to is listed, and no more.
func TestACutAfterAStopIsNotCounted(t *testing.T) {
	c := cutAt(0, 10*second, timeline.EOF)
	c.Stopped = true
	h, cuts := judge(20*second, opened(0, ms, 1), c, opened(0, 11*second, 1))
	if h.Cut != 0 || h.Unwarned != 0 || h.Stopped != 1 || h.Cuts != 1 || len(h.Windows) != 0 || h.Back != nil ||
		len(cuts) != 1 || cuts[0].Window != 0 {
		t.Errorf("%+v, %+v", h, cuts)
	}
}

// A connection that is cut twice, warned once, was cut without a warning; it counts once.
func TestAConnectionThatIsCutTwiceCountsOnce(t *testing.T) {
	warned := cutAt(0, 10*second, timeline.EOF)
	warned.Warned = true
	h, _ := judge(20*second, opened(0, ms, 1), warned, opened(0, 10*second+ms, 1), cutAt(0, 12*second, timeline.Reset),
		opened(0, 12*second+ms, 1))
	if h.Cut != 1 || h.Unwarned != 1 || h.Cuts != 2 {
		t.Errorf("%+v", h)
	}
}

func TestBusiestSecond(t *testing.T) {
	for _, test := range []struct {
		at   []time.Duration
		want int
	}{{nil, 0}, {[]time.Duration{3 * second}, 1}, {[]time.Duration{3 * second, second, 2 * second}, 2},
		{[]time.Duration{0, 400 * ms, 900 * ms, 1100 * ms, 5 * second}, 3}} {
		if got := busiest(test.at); got != test.want {
			t.Errorf("%v: %d, want %d", test.at, got, test.want)
		}
	}
}

// Whatever happened: each cut that counts is in one window, whose brackets hold it; windows are in order and apart;
// and the order of arrival changes nothing.
func FuzzCutsAndWindows(f *testing.F) {
	f.Add(uint64(1), uint8(10))
	f.Add(uint64(42), uint8(200))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		changes, end := someLives(seed, int(n))
		h, cuts := judge(end, changes...)
		counted := 0
		for _, c := range cuts {
			if c.Stopped {
				continue
			}
			counted++
			w := h.Windows[c.Window-1]
			if c.Cut.Latest < w.Start.Latest || c.Cut.Earliest < w.Start.Earliest || c.Cut.Latest > w.End.Latest ||
				c.Back != nil && c.Back.Latest > w.End.Latest {
				t.Fatalf("%+v is not within %+v", c, w)
			}
		}
		sum := 0
		for i, w := range h.Windows {
			sum += w.Cuts
			if w.Start.Earliest > w.Start.Latest || w.End.Earliest > w.End.Latest || w.Failed > w.Cuts ||
				w.Length.Min > w.Length.Max {
				t.Fatalf("%+v", w)
			}
			if i > 0 && w.Start.Latest < h.Windows[i-1].End.Latest+second {
				t.Fatalf("windows %d and %d are less than a second apart", i-1, i)
			}
		}
		if sum != counted || h.Cuts != len(cuts) || h.Unwarned > h.Cut || h.Cut > h.Connections ||
			h.Standing > h.Stood {
			t.Fatalf("%d cuts in windows of %d: %+v", sum, counted, h)
		}
		var l Ledger
		for _, i := range rand.New(rand.NewPCG(seed, 2)).Perm(len(changes)) {
			l.Add(uint64(i), changes[i])
		}
		if again, _ := l.Judge(Options{Target: target, Join: second, End: end, Backend: func(uint16) string {
			return ""
		}, Peer: func(uint16) string {
			return ""
		}}); again.Cuts != h.Cuts || again.Cut != h.Cut || again.Missing != h.Missing ||
			len(again.Windows) != len(h.Windows) || again.Attempts != h.Attempts {
			t.Fatalf("in another order %+v, want %+v", again, h)
		}
	})
}

// someLives are what a prober hands on of 4 connections: in order, and each of them possible.
func someLives(seed uint64, n int) (changes []timeline.HeldChange, end time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 1))
	standing, at := map[uint32]bool{}, ms
	for range n {
		conn := uint32(rng.IntN(target.Connections))
		at += time.Duration(rng.IntN(2_000_000)) * time.Microsecond
		switch {
		case standing[conn]:
			c := cutAt(conn, at, []timeline.Class{timeline.EOF, timeline.Reset, timeline.TimeoutResponse}[rng.IntN(3)])
			c.From, c.Answered, c.Warned, c.Stopped = max(0, c.From), max(0, c.Answered), rng.IntN(3) == 0,
				rng.IntN(5) == 0
			changes = append(changes, c)
			standing[conn] = false
		case rng.IntN(2) == 0:
			changes = append(changes, failedAt(conn, at))
			at += ms
		default:
			changes = append(changes, opened(conn, at, uint16(rng.IntN(3))))
			standing[conn] = true
		}
	}
	return slices.Clip(changes), at + second
}

// The prober waits between attempts: it may be that one would have succeeded meanwhile.
func TestItIsOnRecordForHowLongNothingWasTried(t *testing.T) {
	_, cuts := judge(20*second, opened(0, ms, 1), opened(1, ms, 1), opened(2, ms, 1),
		cutAt(0, 10*second, timeline.EOF), failedAt(0, 10*second), failedAt(0, 10*second+10*ms),
		opened(0, 10*second+30*ms, 2), // an attempt takes 1 ms
		cutAt(1, 11*second, timeline.EOF), opened(1, 11*second+3*ms, 2),
		cutAt(2, 12*second, timeline.EOF), failedAt(2, 19*second))
	for i, want := range []time.Duration{18 * ms, 2 * ms, second - ms} {
		if got := cuts[i].Waited; got != want {
			t.Errorf("cut %d: waited %v, want %v", i, got, want)
		}
	}
}
