package engine

import (
	"math"
	"net/netip"
	"strings"
	"sync"

	"lapse/loadgen/internal/protocol"
	"lapse/timeline"
)

// numbers numbers what requests refer to, by a key. Number 0 stands for unknown, and for every key while the 65 535
// others are taken.
type numbers[K comparable, F any] struct {
	mu     sync.RWMutex
	ids    map[K]uint16 // used since the last call of Forget
	unused map[K]uint16 // used between the two last calls, and not since
	last   uint16       // the one given last
	again  bool         // all were given once
	new    []F          // not yet handed on
}

// add returns key's number, and makes a fact of a new one.
func (n *numbers[K, F]) add(key K, fact func(id uint16, key K) F) uint16 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, known := n.ids[key]; known {
		return id
	}
	if n.ids == nil {
		n.ids = map[K]uint16{}
	}
	if id, known := n.unused[key]; known {
		delete(n.unused, key)
		n.ids[key] = id
		return id
	}
	if len(n.ids)+len(n.unused) == math.MaxUint16 {
		return 0
	}
	id := n.free()
	n.ids[key] = id
	n.new = append(n.new, fact(id, key))
	return id
}

// free returns a number that no key has.
func (n *numbers[K, F]) free() uint16 {
	taken := map[uint16]bool{0: true}
	if n.again = n.again || n.last == math.MaxUint16; n.again {
		for _, keys := range []map[K]uint16{n.ids, n.unused} {
			for _, id := range keys {
				taken[id] = true
			}
		}
	}
	for n.last++; taken[n.last]; n.last++ {
	}
	return n.last
}

// Forget forgets the keys that were not used since the call before. Their numbers are given again after all others.
func (n *numbers[K, F]) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids, n.unused = nil, n.ids
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

// id returns addr's number, a new one for a new address. It must be asked for each request: a connection may last for
// longer than an unused number.
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
