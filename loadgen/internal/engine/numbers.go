package engine

import (
	"math"
	"net/netip"
	"strings"
	"sync"

	"lapse/loadgen/internal/protocol"
	"lapse/timeline"
)

// numbers numbers what requests refer to, by a key. Number 0 stands for unknown, and for every key after the 65 535th.
type numbers[K comparable, F any] struct {
	mu  sync.RWMutex
	ids map[K]uint16
	new []F // not yet handed on
}

// add returns key's number, and makes a fact of a new one.
func (n *numbers[K, F]) add(key K, fact func(id uint16, key K) F) uint16 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, known := n.ids[key]; known {
		return id
	}
	if len(n.ids) == math.MaxUint16 {
		return 0
	}
	if n.ids == nil {
		n.ids = map[K]uint16{}
	}
	id := uint16(len(n.ids) + 1)
	n.ids[key] = id
	n.new = append(n.new, fact(id, key))
	return id
}

// Take returns what was numbered since the last call.
func (n *numbers[K, F]) Take() []F {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.new
	n.new = nil
	return taken
}

// backends numbers the names by which replies tell who served them.
type backends struct {
	numbers[string, timeline.Backend]
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
	return b.add(strings.ToValidUTF8(string(name), "\uFFFD"), newBackend)
}

func newBackend(id uint16, name string) timeline.Backend { return timeline.Backend{ID: id, Name: name} }

// peers numbers the addresses that connections go to.
type peers struct {
	numbers[netip.AddrPort, timeline.Peer]
}

// id returns addr's number, a new one for a new address.
func (p *peers) id(addr netip.AddrPort) uint16 {
	if !addr.IsValid() {
		return 0
	}
	p.mu.RLock()
	id, known := p.ids[addr]
	p.mu.RUnlock()
	if known {
		return id
	}
	return p.add(addr, newPeer)
}

func newPeer(id uint16, addr netip.AddrPort) timeline.Peer { return timeline.Peer{ID: id, Addr: addr} }
