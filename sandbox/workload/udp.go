package main

import (
	"context"
	"errors"
	"net"
)

// openUDP echoes each datagram to the address it came from. UDP has no connection that could be ended: when the
// socket is closed, the kernel answers with "port unreachable".
func (s *server) openUDP(addr string) (side, error) {
	socket, err := net.ListenPacket("udp", addr)
	if err != nil {
		return side{}, err
	}
	serve := func() error {
		datagram := make([]byte, 64<<10)
		for {
			n, from, err := socket.ReadFrom(datagram)
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if err != nil {
				return err
			}
			_ = s.counts.answer(func() error { // it is counted
				_, err := socket.WriteTo(s.echoOf(datagram[:n]), from)
				return err
			})
		}
	}
	stop := func() { _ = socket.Close() }
	return side{protocol: "udp", addr: socket.LocalAddr(), serve: serve,
		end: func(context.Context) { stop() }, cut: stop}, nil
}
