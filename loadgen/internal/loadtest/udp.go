package loadtest

import (
	"maps"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// A UDPServer gives every datagram to one function, and notes where datagrams came from.
type UDPServer struct {
	*net.UDPConn
	serving sync.WaitGroup
	mu      sync.Mutex
	ports   map[uint16]int // datagrams by source port
}

// ServeUDP serves on a free port until the test ends. answer may keep reply, which sends to the source of the datagram.
func ServeUDP(t testing.TB, answer func(datagram string, reply func(string))) *UDPServer {
	t.Helper()
	return ServeUDPAt(t, netip.MustParseAddrPort("127.0.0.1:0"), answer)
}

// ServeUDPAt is [ServeUDP] at an address.
func ServeUDPAt(t testing.TB, at netip.AddrPort, answer func(datagram string, reply func(string))) *UDPServer {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	s := &UDPServer{UDPConn: c, ports: map[uint16]int{}}
	s.serving.Go(func() {
		for buf := make([]byte, 65536); ; {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.ports[from.Port()]++
			s.mu.Unlock()
			answer(string(buf[:n]), func(text string) { _, _ = c.WriteToUDPAddrPort([]byte(text), from) })
		}
	})
	t.Cleanup(s.End)
	return s
}

// End closes the socket, and waits until no answer is sent any more.
func (s *UDPServer) End() {
	_ = s.Close()
	s.serving.Wait()
}

// Addr returns the server's address.
func (s *UDPServer) Addr() netip.AddrPort { return s.LocalAddr().(*net.UDPAddr).AddrPort() }

// URL returns the server's address as a URL of scheme udp.
func (s *UDPServer) URL() string { return "udp://" + s.Addr().String() }

// Ports returns the number of datagrams by their source port.
func (s *UDPServer) Ports() map[uint16]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ports)
}

// Sources counts the source ports that datagrams came from, and the datagrams.
func (s *UDPServer) Sources() (ports, datagrams int) {
	from := s.Ports()
	for _, n := range from {
		datagrams += n
	}
	return len(from), datagrams
}

// Echo answers with the datagram.
func Echo(datagram string, reply func(string)) { reply(datagram) }
