package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/cmd/lapse/internal/selftest"
	"lapse/loadgen/faultserver"
)

// A faulty server is one that fails on schedule, of whatever protocol.
type faultyServer interface {
	Outages() []faultserver.Outage
	Acts() []faultserver.Act
	Answered() int
	io.Closer
}

// A spoken is a protocol that `lapse selftest` measures: how its server is started, and what `lapse run` needs to ask it.
type spoken struct {
	selftest.Protocol
	start func(faultserver.Config) (_ faultyServer, url string, _ error)
	echo  string // --echo
}

// spokenProtocols are those there are.
var spokenProtocols = []spoken{
	{selftest.HTTP, startHTTP, ""},
	{selftest.HTTP2, startSpeaking("h2c"), ""},
	{selftest.GRPC, startSpeaking("grpc"), ""},
	{selftest.Events, startSpeaking("sse"), ""},
	{selftest.UDP, startUDP, "ping {id}"},
	{selftest.DNS, startDNS, ""},
}

func spokenNames() string {
	var names []string
	for _, p := range spokenProtocols {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// flags are those of `lapse run` with which p is measured.
func (p spoken) flags() []string {
	if p.echo == "" {
		return nil
	}
	return []string{"--echo", p.echo}
}

func startHTTP(c faultserver.Config) (faultyServer, string, error) {
	s, err := faultserver.Start(c)
	if err != nil {
		return nil, "", err
	}
	return s, s.URL(), nil
}

func startUDP(c faultserver.Config) (faultyServer, string, error) {
	s, err := faultserver.StartUDP(c, func(request []byte, good bool) []byte {
		if good {
			return request
		}
		return append([]byte("another reply to "), request...)
	})
	if err != nil {
		return nil, "", err
	}
	return s, "udp://" + s.Addr().String(), nil
}

func startDNS(c faultserver.Config) (faultyServer, string, error) {
	s, err := faultserver.StartUDP(c, answerQuery)
	if err != nil {
		return nil, "", err
	}
	return s, fmt.Sprintf("dns://%s/web.shop.svc.cluster.local", s.Addr()), nil
}

// answerQuery answers a query of DNS with an address, or with SERVFAIL.
func answerQuery(query []byte, good bool) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return bytes.Clone(query) // which is no answer
	}
	m.Response, m.Additionals = true, nil
	if good {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte{10, 244, 0, 7}},
		}}
	} else {
		m.RCode = dnsmessage.RCodeServerFailure
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

// startSpeaking starts a server of another protocol over TCP.
func startSpeaking(scheme string) func(faultserver.Config) (faultyServer, string, error) {
	return func(c faultserver.Config) (faultyServer, string, error) {
		c.Protocol = scheme
		return startHTTP(c)
	}
}
