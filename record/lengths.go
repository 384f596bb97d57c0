package record

import "math/bits"

// The lengths of a request's parts, each a column. A length is measured to the microsecond, and most
// of what a recording takes up is their noise. Each is split, as in a log-linear histogram, into a
// symbol (its magnitude: the power of two and the three bits below the highest) and the bits that are
// left. The symbols of a column have a Huffman code of their own. The bits left over are as good as
// random: they are kept as they are, those of all columns in one stream.
//
// Successive lengths were found to tell next to nothing about each other, nor one part of a request
// about another, so this is close to as small as the facts get (see docs/explanation/recording.md).
const (
	lenLate    = iota // Sent − Due
	lenDNS            // the phases
	lenConnect        //
	lenTLS            //
	lenFirst          //
	lenRest           // Done − Sent less the phases: writing the request, and reading on after the first byte
	numLengths
)

// exact is how many lengths have a symbol of their own, and so leave no bits; escape is the symbol of
// one that is negative or does not fit into 32 bits, and leaves all 64.
const (
	exact  = 16
	escape = 255
)

// lengths are the lengths of one block's requests.
type lengths struct {
	symbols [numLengths][]byte
	bits    bitWriter
}

func (l *lengths) reset() {
	for i := range l.symbols {
		l.symbols[i] = l.symbols[i][:0]
	}
	l.bits.reset()
}

func (l *lengths) put(column int, v int64) {
	u := uint64(v)
	if u < exact {
		l.symbols[column] = append(l.symbols[column], byte(u))
		return
	}
	size := bits.Len64(u)
	if size > 32 {
		l.symbols[column] = append(l.symbols[column], escape)
		l.bits.put(u&(1<<32-1), 32)
		l.bits.put(u>>32, 32)
		return
	}
	left := uint(size - 4)
	l.symbols[column] = append(l.symbols[column], byte(exact+(size-5)*8)+byte(u>>left)&7)
	l.bits.put(u&(1<<left-1), left)
}

// A lengthReader takes off what lengths hold.
type lengthReader struct {
	symbols [numLengths][]byte // all equally long
	next    int
	bits    bitReader
}

// get takes a length off a column. It is asked for each column in the order of the writing.
func (l *lengthReader) get(column int) int64 {
	s := l.symbols[column][l.next]
	switch {
	case s < exact:
		return int64(s)
	case s == escape:
		low := l.bits.get(32)
		return int64(l.bits.get(32)<<32 | low)
	}
	left := uint(s-exact)/8 + 1
	if left > 28 {
		l.bits.bad = true
		return 0
	}
	return int64(uint64(8+s&7)<<left | l.bits.get(left))
}
