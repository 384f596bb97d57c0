package engine

import (
	"math"
	"strings"
	"sync"

	"lapse/loadgen/internal/protocol"
	"lapse/timeline"
)

// backends numbers the names by which replies tell who served them. Number 0 stands for unknown,
// and for every name after the 65 535th.
type backends struct {
	mu  sync.RWMutex
	ids map[string]uint16
	new []timeline.Backend // not yet handed on
}

// id returns name's number, a new one for a new name.
func (b *backends) id(name []byte) uint16 {
	if len(name) == 0 {
		return 0
	}
	name = name[:min(len(name), protocol.LongestBackendName)]
	b.mu.RLock()
	id, known := b.ids[string(name)]
	b.mu.RUnlock()
	if known {
		return id
	}
	return b.add(strings.ToValidUTF8(string(name), "\uFFFD"))
}

func (b *backends) add(name string) uint16 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id, known := b.ids[name]; known {
		return id
	}
	if len(b.ids) == math.MaxUint16 {
		return 0
	}
	if b.ids == nil {
		b.ids = map[string]uint16{}
	}
	id := uint16(len(b.ids) + 1)
	b.ids[name] = id
	b.new = append(b.new, timeline.Backend{ID: id, Name: name})
	return id
}

// Take returns the names numbered since the last call.
func (b *backends) Take() []timeline.Backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.new
	b.new = nil
	return taken
}
