package engine

import (
	"math"
	"net/netip"
	"sync"

	"lapse/timeline"
)

// peers numbers the addresses that connections go to. Number 0 stands for unknown, and for every address after the 65
// 535th.
type peers struct {
	mu  sync.RWMutex
	ids map[netip.AddrPort]uint16
	new []timeline.Peer // not yet handed on
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
	return p.add(addr)
}

func (p *peers) add(addr netip.AddrPort) uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, known := p.ids[addr]; known {
		return id
	}
	if len(p.ids) == math.MaxUint16 {
		return 0
	}
	if p.ids == nil {
		p.ids = map[netip.AddrPort]uint16{}
	}
	id := uint16(len(p.ids) + 1)
	p.ids[addr] = id
	p.new = append(p.new, timeline.Peer{ID: id, Addr: addr})
	return id
}

// Take returns the addresses numbered since the last call.
func (p *peers) Take() []timeline.Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.new
	p.new = nil
	return taken
}
