package record

// A code tells how likely each symbol is to be the next one. It learns from every symbol that is coded
// with it, soon after, so that writer and reader know the same and no code has to be written down. What it
// learnt long ago fades. All of it is integers: it comes out the same on every machine.
type code struct {
	weights [numSymbols + 2]uint16 // of symbol s at s+1: how often it came of late
	total   uint32                 // the sum of all weights
	starts  [numSymbols + 1]uint16 // where each symbol's share of oneShare begins, as of when the code was last settled
	hints   [hints + 1]uint8       // the symbol to which each perHint-th point belongs
	learnt  uint32                 // symbols
	wait    uint32                 // how many more are learnt before the code is settled again
}

const (
	shareBits = 15
	oneShare  = 1 << shareBits // the shares of all symbols together; each has at least 1
	hints     = 32             // a power of two
	perHint   = oneShare / hints

	// Found by trying on recordings of real runs; the size depends little on them.
	weight       = 24       // that a symbol gains by coming
	besideWeight = 2        // that each of its neighbours gains
	mostWeight   = 800 * 24 // in total: at more than that, all are halved
	mostWait     = 48       // symbols until the code is settled
)

func newCode() *code {
	c := &code{}
	for i := range c.weights {
		c.weights[i] = 1
	}
	c.total = uint32(len(c.weights))
	c.settle()
	return c
}

// learn takes in that s came.
func (c *code) learn(s uint8) {
	c.weights[s] += besideWeight
	c.weights[s+1] += weight
	c.weights[s+2] += besideWeight
	c.total += weight + 2*besideWeight
	c.learnt++
	if c.wait--; c.wait == 0 {
		c.settle()
	}
}

// settle turns the weights into shares. A new code is settled often.
func (c *code) settle() {
	if c.total > mostWeight {
		c.fade()
	}
	c.wait = min(1+c.learnt/4, mostWait)
	perWeight := (oneShare - numSymbols) << 16 / c.total
	c.hints = [len(c.hints)]uint8{}
	at := uint32(0)
	for s, w := range c.weights[1 : 1+numSymbols] {
		c.starts[s] = uint16(at)
		c.hints[(at+perHint-1)/perHint] = uint8(s)
		at += 1 + uint32(w)*perWeight>>16
	}
	c.starts[numSymbols] = oneShare // rounding leaves a little, which is the last symbol's
	for i := range len(c.hints) - 1 {
		c.hints[i+1] = max(c.hints[i], c.hints[i+1])
	}
}

func (c *code) fade() {
	c.total = 0
	for i := range c.weights {
		c.weights[i] /= 2
		c.total += uint32(c.weights[i])
	}
}

// share is what part of oneShare belongs to s: where it starts and how large it is.
func (c *code) share(s uint8) (start, size uint16) {
	start = c.starts[s]
	return start, c.starts[s+1] - start
}

// at returns the symbol in whose share a point lies.
func (c *code) at(point uint16) uint8 {
	s := c.hints[point/perHint]
	for c.starts[s+1] <= point {
		s++
	}
	return s
}
