package record

import "encoding/binary"

// Symbols are written with rANS, range asymmetric numeral systems (Jarek Duda, arXiv:1311.2540): all symbols together
// are one large number, to which each adds log2(oneShare ÷ its share) bits, whole or not. What is read first is written
// last. The number's upper end is kept in 32 bits; the rest are 16-bit words, little endian.
const ransLow = 1 << 16 // the 32 bits hold at least that: else another word is taken in

// A ransWriter gathers symbols, and then writes them all.
type ransWriter struct {
	shares []share
	words  []uint16
	out    []byte
}

type share struct{ start, size uint16 }

func (w *ransWriter) reset() { w.shares = w.shares[:0] }

func (w *ransWriter) put(start, size uint16) { w.shares = append(w.shares, share{start, size}) }

// bytes returns everything that was put.
func (w *ransWriter) bytes() []byte {
	w.words = w.words[:0]
	state := uint32(ransLow)
	for i := len(w.shares) - 1; i >= 0; i-- {
		start, size := uint32(w.shares[i].start), uint32(w.shares[i].size)
		if uint64(state) >= uint64(size)<<(32-shareBits) {
			w.words = append(w.words, uint16(state))
			state >>= 16
		}
		state = state/size<<shareBits + state%size + start
	}
	w.out = binary.LittleEndian.AppendUint32(w.out[:0], state)
	for i := len(w.words) - 1; i >= 0; i-- {
		w.out = binary.LittleEndian.AppendUint16(w.out, w.words[i])
	}
	return w.out
}

// A ransReader takes off what a ransWriter put. Like a cursor it is read to its end and then asked.
type ransReader struct {
	state uint32
	data  []byte
	next  int  // in data
	bad   bool // something was missing
}

func newRansReader(data []byte) ransReader {
	if len(data) < 4 {
		return ransReader{bad: true}
	}
	return ransReader{state: binary.LittleEndian.Uint32(data), data: data, next: 4}
}

// point says where in oneShare the next symbol lies.
func (r *ransReader) point() uint16 { return uint16(r.state & (oneShare - 1)) }

// take takes the next symbol off, whose share it must be told.
func (r *ransReader) take(start, size uint16) {
	r.state = uint32(size)*(r.state>>shareBits) + r.state&(oneShare-1) - uint32(start)
	if r.state >= ransLow {
		return
	}
	if r.next+2 > len(r.data) {
		r.bad = true
		return
	}
	r.state = r.state<<16 | uint32(binary.LittleEndian.Uint16(r.data[r.next:]))
	r.next += 2
}

// finished reports whether everything was taken, and nothing was missing.
func (r *ransReader) finished() bool { return !r.bad && r.next == len(r.data) && r.state == ransLow }
