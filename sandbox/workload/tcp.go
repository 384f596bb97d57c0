package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// openTCP listens for connections that are held for as long as the client wants, and echoes what comes. At the end of
// a graceful drain the server ends its direction (FIN); with --ends cut the client sees a reset.
func (s *server) openTCP(addr string) (side, error) {
	config, err := s.certificate()
	if err != nil {
		return side{}, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return side{}, err
	}
	serve := func() error {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if err != nil {
				return err
			}
			s.counts.connections.Add(1)
			go s.hold(conn, config)
		}
	}
	stop := func() { _ = listener.Close() } // its connections are among the held ones
	return side{protocol: "tcp", addr: listener.Addr(), serve: serve,
		end: func(context.Context) { stop() }, cut: stop}, nil
}

func (s *server) hold(raw net.Conn, config *tls.Config) {
	conn := raw
	if config != nil {
		conn = tls.Server(raw, config)
	}
	defer conn.Close()
	holding := s.held.begin()
	defer s.held.ended(holding)
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.echoBytes(conn)
	}()
	select {
	case <-over:
	case <-holding.gone:
		reset(raw)
	case <-holding.leave: // and Close sends the FIN, of TLS its close_notify before
	}
}

func (s *server) echoBytes(conn net.Conn) {
	message := make([]byte, 64<<10)
	for {
		n, err := conn.Read(message)
		if err != nil {
			return
		}
		err = s.counts.answer(func() error {
			_, err := conn.Write(s.echoOf(message[:n]))
			return err
		})
		if err != nil {
			return
		}
	}
}
