package protocol

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A Compiled is a Probe checked and prepared: everything a request needs that does not change.
type Compiled struct {
	ID          timeline.TargetID
	Name        string
	Kind        timeline.TargetKind
	Timeout     time.Duration
	Codec                   // what is said
	Stateful    Stateful    // the codec, if its connections have a state
	AsksFor     string      // the name that each request looks up, if that is the protocol
	Message     []byte      // its request
	wire.Dialer             // where to connect
	Streams     bool        // a connection carries several requests at once
	TLS         *tls.Config // nil for none
	Keep        int         // connections kept
	MaxInUse    int         // 0: follows from the rate
}

// Compile checks p. Errors say which of its parts is wrong.
func Compile(p Probe) (*Compiled, error) {
	u, err := ParseURL(p.URL)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", p.Name, err)
	}
	if err := errors.Join(CheckRate(p.Rate), checkProbe(p)); err != nil {
		return nil, fmt.Errorf("target %q: %w", p.Name, err)
	}
	protocol, _ := ProtocolOf(u.Scheme)
	codec, err := protocol.compile(p, u)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", p.Name, err)
	}
	stateful, _ := codec.(Stateful)
	compiled := &Compiled{
		ID:       p.ID,
		Name:     p.Name,
		Kind:     p.Kind,
		Timeout:  cmp.Or(p.Timeout, DefaultTimeout),
		Codec:    codec,
		Stateful: stateful,
		Message:  codec.Request(),
		Keep:     cmp.Or(p.Connections, DefaultConnections),
		MaxInUse: p.MaxConnections,
		Dialer:   wire.Dialer{Network: protocol.Transport()},
		Streams:  protocol.streams,
	}
	if err := compiled.setAddress(p, u, protocol.Port); err != nil {
		return nil, fmt.Errorf("target %q: %w", p.Name, err)
	}
	compiled.Addrs = []netip.AddrPort{compiled.Addr}
	if naming, ok := codec.(naming); ok {
		compiled.AsksFor = naming.asksFor()
	}
	if compiled.Family = p.Family; p.Turns {
		compiled.Turns = new(wire.Turns)
	}
	if protocol.secure {
		compiled.TLS = tlsConfig(p, u, protocol.alpn)
	}
	return compiled, nil
}

// Check reports what [Prober.Start] would refuse about p.
func (p Probe) Check() error {
	_, err := Compile(p)
	return err
}

// setAddress decides where connections go: to the endpoint itself for a direct target, else to the
// URL's host.
func (p *Compiled) setAddress(probe Probe, u *url.URL, defaultPort string) error {
	if probe.Kind == timeline.Direct {
		p.Addr = probe.Addr
		return nil
	}
	port, err := net.LookupPort("tcp", cmp.Or(u.Port(), defaultPort))
	if err != nil {
		return fmt.Errorf("URL %s: %w", u, err)
	}
	p.Host, p.Port = u.Hostname(), uint16(port)
	if ip, err := netip.ParseAddr(p.Host); err == nil {
		p.Addr = netip.AddrPortFrom(ip, p.Port)
	}
	return nil
}

// tlsConfig resumes no session, so that every handshake is a full one.
func tlsConfig(p Probe, u *url.URL, alpn []string) *tls.Config {
	name := cmp.Or(p.Host, u.Host)
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	return &tls.Config{
		ServerName: strings.TrimSuffix(withoutZone(strings.Trim(name, "[]")), "."),
		RootCAs:    p.RootCAs,
		NextProtos: alpn,

		GetClientCertificate: p.ClientCertificate,
	}
}
