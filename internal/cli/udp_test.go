package cli

import (
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/internal/run/runtest"
)

// serveUDPEcho sends datagrams back, until the test ends, and returns where.
func serveUDPEcho(t *testing.T) (addr string) {
	t.Helper()
	return runtest.ServeUDP(t, "127.0.0.1:0", func(datagram []byte) []byte { return datagram })
}

// serveDNS answers queries until the test ends, and returns where: of web.shop with 10.0.0.1 and 10.0.0.2, of
// slow.shop not at all, of the rest that there is no such name.
func serveDNS(t *testing.T) (addr string) {
	t.Helper()
	return runtest.ServeUDP(t, "127.0.0.1:0", func(query []byte) []byte {
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
