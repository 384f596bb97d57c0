package record

import "encoding/binary"

// A bitWriter packs numbers of any width behind each other, the lowest bit first.
type bitWriter struct {
	out  []byte
	held uint64 // bits not yet in out
	n    uint   // how many; fewer than 32
}

func (w *bitWriter) reset() { *w = bitWriter{out: w.out[:0]} }

// put appends the lowest n bits of v, which has no others. n is at most 32.
func (w *bitWriter) put(v uint64, n uint) {
	w.held |= v << w.n
	if w.n += n; w.n >= 32 {
		w.out = binary.LittleEndian.AppendUint32(w.out, uint32(w.held))
		w.held >>= 32
		w.n -= 32
	}
}

// bytes returns everything that was put, filled up to whole bytes. Nothing may be put after it.
func (w *bitWriter) bytes() []byte {
	for ; w.n > 0; w.n -= min(w.n, 8) {
		w.out = append(w.out, byte(w.held))
		w.held >>= 8
	}
	return w.out
}

// A bitReader takes off what a bitWriter put. Like a cursor it is read to its end and then asked.
type bitReader struct {
	data []byte
	held uint64
	n    uint
	bad  bool // there were not as many bits as were asked for
}

// get takes the next n bits, at most 32.
func (r *bitReader) get(n uint) uint64 {
	for r.n < n {
		if len(r.data) >= 4 {
			r.held |= uint64(binary.LittleEndian.Uint32(r.data)) << r.n
			r.data = r.data[4:]
			r.n += 32
			break
		}
		if len(r.data) == 0 {
			r.bad, r.held, r.n = true, 0, 0
			return 0
		}
		r.held |= uint64(r.data[0]) << r.n
		r.data = r.data[1:]
		r.n += 8
	}
	v := r.held & (1<<n - 1)
	r.held >>= n
	r.n -= n
	return v
}

// finished reports whether everything was taken, and nothing was missing.
func (r *bitReader) finished() bool { return !r.bad && len(r.data) == 0 && r.n < 8 && r.held == 0 }
