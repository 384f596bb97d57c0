package trials

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/internal/selftest"
	"lapse/loadgen/faultserver"
)

// A faultyServer fails on schedule, over any protocol.
type faultyServer interface {
	Outages() []faultserver.Outage
	Acts() []faultserver.Act
	Answered() int
	io.Closer
}

// A Protocol can be measured: it has how its server is started, and what `lapse run` needs to ask it.
type Protocol struct {
	selftest.Protocol
	start func(faultserver.Config) (_ faultyServer, url string, _ error)
	echo  string // --echo

	Secure bool   // over TLS
	alpn   string // what its server chooses, if anything
	caFile string // --ca-file; filled in by certify, as is the certificate
	tls    *tls.Config
}

// Protocols are all that can be measured.
var Protocols = []Protocol{
	{Protocol: selftest.HTTP, start: startTCP("")},
	{Protocol: selftest.HTTP.OverTLS("https"), start: startTCP(""), Secure: true},
	{Protocol: selftest.HTTP2, start: startTCP("h2c")},
	{Protocol: selftest.HTTP2.OverTLS("h2"), start: startTCP("h2c"), Secure: true, alpn: "h2"},
	{Protocol: selftest.GRPC, start: startTCP("grpc")},
	{Protocol: selftest.GRPC.OverTLS("grpcs"), start: startTCP("grpc"), Secure: true, alpn: "h2"},
	{Protocol: selftest.Events, start: startTCP("sse")},
	{Protocol: selftest.Events.OverTLS("sses"), start: startTCP("sse"), Secure: true},
	{Protocol: selftest.WebSocket, start: startTCP("ws")},
	{Protocol: selftest.WebSocket.OverTLS("wss"), start: startTCP("ws"), Secure: true},
	{Protocol: selftest.TCP, start: startTCP("tcp"), echo: "ping\n"},
	{Protocol: selftest.TCP.OverTLS("tls"), start: startTCP("tcp"), echo: "ping\n", Secure: true},
	{Protocol: selftest.UDP, start: startUDP, echo: "ping {id}"},
	{Protocol: selftest.DNS, start: startDNS},
}

// Names returns the names of all [Protocols], as a user reads them.
func Names() string {
	var names []string
	for _, p := range Protocols {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// certify makes the certificate of a server over TLS, and leaves what a client is to trust in dir.
func (p *Protocol) certify(dir string) (err error) {
	if !p.Secure {
		return nil
	}
	var alpn []string
	if p.alpn != "" {
		alpn = []string{p.alpn}
	}
	var ca []byte
	if p.tls, ca, err = faultserver.Certify(alpn...); err != nil {
		return err
	}
	p.caFile = filepath.Join(dir, "ca.pem")
	return os.WriteFile(p.caFile, ca, 0o644)
}

// serve starts p's server.
func (p Protocol) serve(c faultserver.Config) (_ faultyServer, url string, _ error) {
	c.TLS = p.tls
	return p.start(c)
}

// flags returns the flags of `lapse run` with which p is measured.
func (p Protocol) flags() (flags []string) {
	if p.echo != "" {
		flags = append(flags, "--echo", p.echo)
	}
	if p.caFile != "" {
		flags = append(flags, "--ca-file", p.caFile)
	}
	return flags
}

// startTCP starts servers of a protocol over TCP, by faultserver's name.
func startTCP(protocol string) func(faultserver.Config) (faultyServer, string, error) {
	return func(c faultserver.Config) (faultyServer, string, error) {
		c.Protocol = protocol
		s, err := faultserver.Start(c)
		if err != nil {
			return nil, "", err
		}
		return s, s.URL(), nil
	}
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
			Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 5},
			Body:   &dnsmessage.AResource{A: [4]byte{10, 244, 0, 7}},
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
