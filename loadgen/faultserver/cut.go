package faultserver

import (
	"maps"
	"slices"
)

// A Cut is the end that the server gave a connection, whatever was said on it.
type Cut struct {
	Kind Kind   // EOF: it was closed; Reset
	Conn int    // which one, from 1
	Name string // who answered on it
	At   Span
}

// Cut ends every nth of the connections that there are, and returns what it has done. A request that crosses with the
// end of its connection is not answered.
func (s *Server) Cut(kind Kind, every int) (cuts []Cut) {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := slices.SortedFunc(maps.Keys(s.conns), func(a, b *conn) int { return a.number - b.number })
	for i, c := range conns {
		if (i+1)%every == 0 {
			cuts = append(cuts, c.end(kind))
		}
	}
	s.cuts = append(s.cuts, cuts...)
	return cuts
}

// end ends a connection. The caller holds the server's mu.
func (c *conn) end(kind Kind) Cut {
	c.idle = false // what it reads from here on is not served
	cut := Cut{Kind: kind, Conn: c.number, Name: c.name(), At: Span{From: c.server.now()}}
	if kind == Reset {
		c.cut()
	} else {
		_ = c.tcp.CloseWrite()
	}
	cut.At.To = c.server.now()
	delete(c.server.conns, c)
	return cut
}

// Cuts are those that Cut has made.
func (s *Server) Cuts() []Cut {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cuts)
}
