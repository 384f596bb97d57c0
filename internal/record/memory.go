package record

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"
	"time"

	"lapse/timeline"
)

// NewInMemory begins a recording that is kept in memory: the blocks of the last span, and at most size bytes of them.
// Older blocks go first; the newest is always kept. A [Tail] that reads at its pace gets what it gets from a file. One
// that is slower, or begins at an offset that is gone, gets a [ForgottenError]. Definitions are not repeated: no reader
// can begin later than with the first byte.
func NewInMemory(span time.Duration, size int) (*Writer, error) {
	w, err := newWriter(&memory{span: span, most: size, clock: timeline.StartClock()}, "in memory")
	if err != nil {
		return nil, err
	}
	w.block.defs.once = true
	return w, nil
}

// A ForgottenError says that a recording in memory does not have a byte any more.
type ForgottenError struct {
	Offset int64 // of the byte
	First  int64 // the offset of the first byte that is there
}

func (e *ForgottenError) Error() string {
	return fmt.Sprintf("byte %d of the recording is gone: what is kept in memory begins at byte %d", e.Offset, e.First)
}

// A memory is a file that forgets its oldest blocks. Each Write is a block.
type memory struct {
	span  time.Duration
	most  int
	clock timeline.Clock

	mu     sync.Mutex
	blocks []kept
	size   int   // bytes of these
	end    int64 // offset of the next block
}

// A kept block is one in memory.
type kept struct {
	offset int64
	bytes  []byte
	since  time.Duration
}

func (m *memory) Write(block []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	m.blocks = append(m.blocks, kept{m.end, slices.Clone(block), now})
	m.size += len(block)
	m.end += int64(len(block))
	old := 0
	for last := len(m.blocks) - 1; old < last && (m.size > m.most || now-m.blocks[old].since > m.span); old++ {
		m.size -= len(m.blocks[old].bytes)
	}
	m.blocks = slices.Delete(m.blocks, 0, old)
	return len(block), nil
}

func (m *memory) ReadAt(p []byte, offset int64) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first := m.blocks[0].offset; offset < first {
		return 0, &ForgottenError{Offset: offset, First: first}
	}
	at := sort.Search(len(m.blocks), func(i int) bool { return m.blocks[i].offset > offset }) - 1
	for _, b := range m.blocks[at:] {
		n += copy(p[n:], b.bytes[offset+int64(n)-b.offset:])
		if n == len(p) {
			return n, nil
		}
	}
	return n, io.EOF
}

func (m *memory) Truncate(int64) error { return nil } // no Write fails
func (m *memory) Sync() error          { return nil }
func (m *memory) Close() error         { return nil } // its readers read on
