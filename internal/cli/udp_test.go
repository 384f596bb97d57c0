package cli

import (
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// serveUDPEcho sends datagrams back, until the test ends, and returns where.
func serveUDPEcho(t *testing.T) (addr string) {
	t.Helper()
	return serveUDP(t, func(datagram []byte) []byte { return datagram })
}

// serveUDP answers datagrams, until the test ends, and returns where. A nil answer is none.
func serveUDP(t *testing.T, answer func(datagram []byte) []byte) (addr string) {
	t.Helper()
	return serveUDPAt(t, "127.0.0.1:0", answer)
}

func serveUDPAt(t *testing.T, at string, answer func(datagram []byte) []byte) (addr string) {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at)))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for buf := make([]byte, 65536); ; {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if a := answer(buf[:n]); a != nil {
				_, _ = c.WriteToUDPAddrPort(a, from)
			}
		}
	})
	t.Cleanup(func() { c.Close(); serving.Wait() })
	return c.LocalAddr().String()
}

// serveDNS answers queries until the test ends, and returns where: of web.shop with 10.0.0.1 and 10.0.0.2, of
// slow.shop not at all, of the rest that there is no such name.
func serveDNS(t *testing.T) (addr string) {
	t.Helper()
	return serveUDP(t, func(query []byte) []byte {
		var m dnsmessage.Message
		if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
			t.Errorf("a query that is none: %v", err)
			return nil
		}
		m.Response, m.Additionals = true, nil
		switch m.Questions[0].Name.String() {
		case "slow.shop.":
			return nil
		case "web.shop.":
			for host := byte(1); host <= 2 && m.Questions[0].Type == dnsmessage.TypeA; host++ {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, host}},
				})
			}
		default:
			m.RCode = dnsmessage.RCodeNameError
		}
		answer, err := m.Pack()
		if err != nil {
			t.Error(err)
		}
		return answer
	})
}
