package correlate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
)

// A Histogram counts requests by latency slot, see [LatencySlot]. It tells what a [SparseCounts] of
// as many pairs does, and is one in JSON, but takes an eighth of the memory: a run has thousands.
// The zero value is empty.
//
// It holds two varints for each slot with requests, slots rising: how far the slot lies above the one
// before (the first: above 0), and how many requests are in it.
type Histogram string

// NewHistogram packs counts. Their slots must rise, and nothing in them be negative.
func NewHistogram(counts SparseCounts) Histogram {
	var p packer
	for i := 0; i+1 < len(counts); i += 2 {
		p.put(counts[i], counts[i+1])
	}
	return p.histogram()
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

// plus returns the sum of two histograms.
func (h Histogram) plus(o Histogram) Histogram {
	if h == "" || o == "" {
		return h + o
	}
	var p packer
	a, b := unpack(h), unpack(o)
	for a.more || b.more {
		switch {
		case !b.more || a.more && a.slot < b.slot:
			p.put(a.slot, a.n)
			a.next()
		case !a.more || b.slot < a.slot:
			p.put(b.slot, b.n)
			b.next()
		default:
			p.put(a.slot, a.n+b.n)
			a.next()
			b.next()
		}
	}
	return p.histogram()
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

// A packer writes a histogram.
type packer struct {
	packed []byte
	room   [128]byte // for most histograms all of it
	last   int       // the last slot
}

func (p *packer) put(slot, n int) {
	if p.packed == nil {
		p.packed = p.room[:0]
	}
	p.packed = binary.AppendUvarint(p.packed, uint64(slot-p.last))
	p.packed = binary.AppendUvarint(p.packed, uint64(n))
	p.last = slot
}

func (p *packer) histogram() Histogram { return Histogram(p.packed) }

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
