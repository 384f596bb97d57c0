package record

import (
	"math/bits"

	"lapse/timeline"
)

// The lengths of a request's parts, each a column. A length is measured to the microsecond, and most
// of what a recording takes up is their noise. Each is split, as in a log-linear histogram, into a
// symbol (its magnitude: the power of two and the three bits below the highest) and the bits that are
// left. The bits left over are as good as random: they are kept as they are, all in one stream.
//
// How likely each symbol is depends on two lengths that were measured just before: the one to its left
// in the same request, and the same of the target's request before (see memory). A code for each such
// context learns from what came in it, over the whole recording.
const (
	lenLate    = iota // Sent − Due
	lenDNS            // the phases
	lenConnect        //
	lenTLS            //
	lenFirst          //
	lenRest           // Done − Sent less the phases: writing the request, and reading on after the first byte
	numLengths
)

// always are the columns, as bits, that every target has. Of the others a target has in a block those
// that are not all zero.
const always = 1<<lenLate | 1<<lenRest

// exact is how many lengths have a symbol of their own, and so leave no bits; escape is the symbol of
// one that is negative or beyond maxSize bits.
const (
	exact      = 32
	maxSize    = 20
	escape     = exact + (maxSize-5)*8
	numSymbols = escape + 1
)

// A symbol is a length's magnitude, and n bits.
type symbol struct {
	s    uint8
	n    uint8
	left uint32
}

// symbolOf is not for lengths that escape.
func symbolOf(v uint64) symbol {
	if v < exact {
		return symbol{s: uint8(v)}
	}
	size := bits.Len64(v)
	n := uint(size - 4)
	return symbol{exact + uint8(size-6)*8 + uint8(v>>n)&7, uint8(n), uint32(v) & (1<<n - 1)}
}

// base returns the smallest length of symbol s, and how many bits are left to add.
func base(s uint8) (v uint64, n uint) {
	if s < exact {
		return uint64(s), 0
	}
	n = uint(s-exact)/8 + 2
	return uint64(8+s&7) << n, n
}

// Contexts are made of levels, of which there are two per octave from 8 µs to 512 µs, and fewer outside.
const (
	levelBits = 4
	contexts  = 1 << (2 * levelBits)
)

func level(v int64) uint8 {
	size := bits.Len64(uint64(v))
	switch {
	case v < 8:
		return 0
	case v < 512:
		return 1 + uint8(size-4)*2 + uint8(v>>(size-2))&1
	}
	return uint8(min(size+3, 1<<levelBits-1))
}

// A memory is what a target's requests so far tell of the next one. Writer and reader keep the same.
type memory struct {
	codes  [numLengths][contexts]*code // nil: nothing learnt yet
	last   [numLengths]uint8           // the levels of the request before
	before uint8                       // how late the one before that was: what stands to the left of the first column

	predictor predictor
}

// code returns the code of a column's next length.
func (m *memory) code(column int, left uint8) *code {
	c := &m.codes[column][left<<levelBits|m.last[column]]
	if *c == nil {
		*c = newCode()
	}
	return *c
}

// begin returns what stands to the left of a request's first column.
func (m *memory) begin() (left uint8) {
	left, m.before = m.before, m.last[lenLate]
	return left
}

// memories are those of all targets. So that they stay few, targets share one if their IDs are equal modulo their number.
type memories struct {
	of     [8]*memory
	blocks int // from which they were learnt
}

func (m *memories) target(id timeline.TargetID) *memory {
	t := &m.of[int(id)%len(m.of)]
	if *t == nil {
		*t = &memory{}
	}
	return *t
}

// age is a byte of the format: 0 if nothing was learnt yet, else a count that starts over after 255.
func (m *memories) age() byte {
	if m.blocks == 0 {
		return 0
	}
	return byte(1 + (m.blocks-1)%255)
}

// lengths are the lengths of one block's requests, and what is remembered from those before.
type lengths struct {
	memories memories
	memory   *memory // of the target whose requests are put
	columns  uint8   // that it has
	symbols  ransWriter
	bits     bitWriter
}

func (l *lengths) reset() {
	l.symbols.reset()
	l.bits.reset()
}

// turnTo says to which target the next requests went, and which columns they have.
func (l *lengths) turnTo(target timeline.TargetID, columns uint8) {
	l.memory, l.columns = l.memories.target(target), columns
}

// put adds a request.
func (l *lengths) put(parts *[numLengths]int64) {
	left := l.memory.begin()
	for column, v := range parts {
		if l.columns&(1<<column) == 0 {
			continue
		}
		code := l.memory.code(column, left)
		sym := symbol{s: escape}
		if uint64(v) < 1<<maxSize {
			sym = symbolOf(uint64(v))
			l.bits.put(uint64(sym.left), uint(sym.n))
		} else {
			l.putLong(zigzag(v))
		}
		l.symbols.put(code.share(sym.s))
		code.learn(sym.s)
		left = level(v)
		l.memory.last[column] = left
	}
}

// putLong puts the bits of a length that escaped: how many they are, and all but the highest, which is 1.
func (l *lengths) putLong(u uint64) {
	n := uint(bits.Len64(u) - 1)
	l.bits.put(uint64(n), 6)
	u -= 1 << n
	l.bits.put(u&(1<<min(n, 32)-1), min(n, 32))
	l.bits.put(u>>32, n-min(n, 32))
}

// appendTo appends the lengths to dst. Nothing may be put after it before a reset.
func (l *lengths) appendTo(dst []byte) []byte {
	dst = append(dst, l.memories.age())
	l.memories.blocks++
	dst = appendBytes(dst, l.symbols.bytes())
	return append(dst, l.bits.bytes()...)
}

// A lengthReader takes off what lengths hold, block by block.
type lengthReader struct {
	memories memories
	broken   bool // what is remembered ends within a block
	memory   *memory
	columns  uint8
	symbols  ransReader
	bits     bitReader
}

// open begins to read a block's lengths. It errs if they were written with another memory than is here.
func (l *lengthReader) open(in *cursor) error {
	age := in.byte()
	if age == 0 {
		l.memories, l.broken = memories{}, false
	}
	if l.broken || age != l.memories.age() {
		return corrupt("the blocks before it are missing")
	}
	l.broken = true
	l.symbols = newRansReader(in.bytes())
	l.bits = bitReader{data: in.data}
	if in.bad {
		return corrupt("a block's lengths are cut short")
	}
	return nil
}

// close ends the reading of a block. Only then can that of the next begin.
func (l *lengthReader) close() error {
	if !l.symbols.finished() || !l.bits.finished() {
		return corrupt("the lengths do not fit their requests")
	}
	l.memories.blocks++
	l.broken = false
	return nil
}

func (l *lengthReader) turnTo(target timeline.TargetID, columns uint8) {
	l.memory, l.columns = l.memories.target(target), columns
}

// get takes off a request.
func (l *lengthReader) get(parts *[numLengths]int64) {
	left := l.memory.begin()
	for column := range parts {
		parts[column] = 0
		if l.columns&(1<<column) == 0 {
			continue
		}
		code := l.memory.code(column, left)
		s := code.at(l.symbols.point())
		l.symbols.take(code.share(s))
		code.learn(s)
		v := l.value(s)
		left = level(v)
		l.memory.last[column] = left
		parts[column] = v
	}
}

// value takes off the bits that are left of symbol s.
func (l *lengthReader) value(s uint8) int64 {
	if s == escape {
		n := uint(l.bits.get(6))
		low := l.bits.get(min(n, 32))
		return unzigzag(1<<n | l.bits.get(n-min(n, 32))<<32 | low)
	}
	v, n := base(s)
	return int64(v | l.bits.get(n))
}
