package model

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"iter"
	"math/bits"
	"strconv"
	"time"
)

// A Histogram counts requests by latency slot, see [LatencyBin]. It tells what a [SparseCounts] of
// as many pairs does, and is one in JSON, but takes an eighth of the memory: a run has thousands.
// The zero value is empty.
//
// It holds two varints for each slot with requests, slots rising: how far the slot lies above the one
// before (the first: above 0), and how many requests are in it.
type Histogram string

// NewHistogram packs counts. Their slots must rise, and nothing in them be negative.
func NewHistogram(counts SparseCounts) Histogram {
	var p HistogramPacker
	for i := 0; i+1 < len(counts); i += 2 {
		p.Put(counts[i], counts[i+1])
	}
	return p.Histogram()
}

// All yields slots, rising, with their counts.
func (h Histogram) All() iter.Seq2[int, int] {
	return func(yield func(slot, n int) bool) {
		for u := unpack(h); u.more; u.next() {
			if !yield(u.slot, u.n) {
				return
			}
		}
	}
}

// Plus returns the sum of two histograms.
func (h Histogram) Plus(o Histogram) Histogram {
	if h == "" || o == "" {
		return h + o
	}
	var p HistogramPacker
	a, b := unpack(h), unpack(o)
	for a.more || b.more {
		switch {
		case !b.more || a.more && a.slot < b.slot:
			p.Put(a.slot, a.n)
			a.next()
		case !a.more || b.slot < a.slot:
			p.Put(b.slot, b.n)
			b.next()
		default:
			p.Put(a.slot, a.n+b.n)
			a.next()
			b.next()
		}
	}
	return p.Histogram()
}

// MarshalJSON writes h as [slot, count, slot, count, …].
func (h Histogram) MarshalJSON() ([]byte, error) {
	text := []byte{'['}
	for slot, n := range h.All() {
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(slot), 10)
		text = append(text, ',')
		text = strconv.AppendInt(text, int64(n), 10)
	}
	return append(text, ']'), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var counts SparseCounts
	if err := json.Unmarshal(text, &counts); err != nil {
		return err
	}
	if len(counts)%2 != 0 {
		return errors.New("latency histogram: a slot without a count")
	}
	for i := 0; i < len(counts); i += 2 {
		if counts[i] < 0 || counts[i+1] < 0 || i > 0 && counts[i] <= counts[i-2] {
			return errors.New("latency histogram: slots must rise, and nothing be negative")
		}
	}
	*h = NewHistogram(counts)
	return nil
}

// LatencyBin returns the slot of the latency histograms in [BucketSeries] that d belongs to. Slots are
// log-linear over whole microseconds: 0 to 7 hold one each, then eight slots divide every octave,
// so that a slot's bounds are at most 12.5 % apart. Slot 8 × (e−2) + m holds the latencies from
// (8+m) × 2^(e−3) µs up to the next slot's, for e ≥ 3 and 0 ≤ m < 8.
func LatencyBin(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 8 {
		return int(us)
	}
	e := bits.Len64(us) - 1
	return 8*(e-2) + int(us>>(e-3))&7
}

// BinLatency returns the range of latencies in a slot: from low up to, but not including, high.
func BinLatency(slot int) (low, high time.Duration) {
	if slot < 8 {
		return time.Duration(slot) * time.Microsecond, time.Duration(slot+1) * time.Microsecond
	}
	unit := time.Microsecond << (slot/8 - 1)
	m := time.Duration(slot % 8)
	return (8 + m) * unit, (9 + m) * unit
}

// LatencyBins is how many slots [LatencyBin] has: enough for every time.Duration.
const LatencyBins = 416

// A HistogramPacker writes a histogram. Its zero value is ready.
type HistogramPacker struct {
	packed []byte
	room   [128]byte // for most histograms all of it
	last   int       // the last slot
}

// Put adds the count of a slot that lies above the last one.
func (p *HistogramPacker) Put(slot, n int) {
	if p.packed == nil {
		p.packed = p.room[:0]
	}
	p.packed = binary.AppendUvarint(p.packed, uint64(slot-p.last))
	p.packed = binary.AppendUvarint(p.packed, uint64(n))
	p.last = slot
}

// Histogram returns what was put in.
func (p *HistogramPacker) Histogram() Histogram { return Histogram(p.packed) }

// An unpacker reads a histogram.
type unpacker struct {
	rest    Histogram
	more    bool // there is a pair, which is:
	slot, n int
}

// unpack begins at the first pair.
func unpack(h Histogram) unpacker {
	u := unpacker{rest: h}
	u.next()
	return u
}

func (u *unpacker) next() {
	u.more = u.rest != ""
	if u.more {
		u.slot += int(u.varint())
		u.n = int(u.varint())
	}
}

// varint reads what [encoding/binary.AppendUvarint] writes, from a string.
func (u *unpacker) varint() (x uint64) {
	for i := 0; ; i++ {
		b := u.rest[i]
		x |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			u.rest = u.rest[i+1:]
			return x
		}
	}
}
