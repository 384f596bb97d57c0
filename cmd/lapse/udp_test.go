package main

import (
	"net"
	"sync"
	"testing"
)

// serveUDPEcho sends datagrams back, until the test ends, and returns where.
func serveUDPEcho(t *testing.T) (addr string) {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
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
			_, _ = c.WriteToUDPAddrPort(buf[:n], from)
		}
	})
	t.Cleanup(func() { c.Close(); serving.Wait() })
	return c.LocalAddr().String()
}
