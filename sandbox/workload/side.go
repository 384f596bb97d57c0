package main

import (
	"context"
	"crypto/tls"
	"net"
)

// A side is a further server, of another protocol on a port of its own.
type side struct {
	protocol string
	addr     net.Addr
	serve    func() error // until it has ended, or was cut
	// end stops listening, warns its clients as the protocol can, and waits for what is under way.
	end func(ctx context.Context)
	cut func() // closes its sockets
}

// openSides listens for every protocol that has an address.
func (s *server) openSides() error {
	for _, of := range []struct {
		addr string
		open func(addr string) (side, error)
	}{
		{s.options.GRPC, s.openGRPC},
		{s.options.TCP, s.openTCP},
		{s.options.UDP, s.openUDP},
	} {
		if of.addr == "" {
			continue
		}
		opened, err := of.open(of.addr)
		if err != nil {
			return err
		}
		s.sides = append(s.sides, opened)
	}
	return nil
}

// certificate returns the configuration of TLS, nil without --tls-cert.
func (s *server) certificate() (*tls.Config, error) {
	if s.options.TLSCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.options.TLSCert, s.options.TLSKey)
	return &tls.Config{Certificates: []tls.Certificate{pair}}, err
}

// echoOf returns the reply to a message: the message, with --echo-name after the name. The reply to "who" is always
// the name.
func (s *server) echoOf(message []byte) []byte {
	if string(message) == "who" || string(message) == "who\n" {
		return append([]byte(s.options.Name), message[3:]...)
	}
	if s.options.EchoName {
		return append([]byte(s.options.Name+" "), message...)
	}
	return message
}
