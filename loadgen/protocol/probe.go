package protocol

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"lapse/loadgen/wire"
	"lapse/timeline"
)

const (
	// DefaultTimeout is a target's Timeout where it sets none. It stays clear of 1 s and 3 s, where
	// repeated SYN packets bring late connections.
	DefaultTimeout = 800 * time.Millisecond
	// DefaultConnections is how many persistent connections a reused target keeps where it says nothing.
	DefaultConnections = 10
	// DefaultBackendHeader is the reply header that names who served a request.
	DefaultBackendHeader = "X-Pod"
	// MaxRate is the highest Rate of a target, in requests per second. Due instants are whole microseconds.
	MaxRate = 1_000_000

	LongestInlineSend = 4096 // bytes; longer requests are not written by the pacing thread
)

// A Probe is a target and how to ask it.
type Probe struct {
	timeline.Target // the URL's scheme chooses the protocol

	Method string      // HTTP: default GET. Requests carry no body.
	Host   string      // Host header and TLS server name (SNI) where they differ from the URL's host
	Header http.Header // HTTP: sent with every request

	Echo  string // TCP, TLS and UDP: sent after connecting; "" for nothing
	Reply string // TCP, TLS and UDP: what a good reply begins with; by default Echo. See tcp.go and udp.go.

	GRPCMethod  string // gRPC: "pkg.Service/Method"; by default the standard health check
	GRPCMessage []byte // gRPC: what GRPCMethod is called with, in the protobuf wire format. See [GRPCRequest].

	RootCAs *x509.CertPool // whom to trust; nil for the system's

	Connections    int // reused: how many are kept; default 10
	MaxConnections int // how many requests may be open at once, each on a connection of its own if its protocol has one at a time; default ⌈Rate × (Timeout + 100 ms)⌉ + Connections

	ExpectStatus  Statuses // HTTP: which status codes are a success; the zero value is 200 to 399
	ExpectBody    string   // HTTP: what a successful reply's body has in its first MiB; "" for anything
	BackendHeader string   // HTTP: the reply header that names the backend; default X-Pod
}

// Check reports what [Prober.Start] would refuse about p.
func (p Probe) Check() error {
	_, err := Compile(p)
	return err
}

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
	Tls         *tls.Config // nil for none
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
	if naming, ok := codec.(Naming); ok {
		compiled.AsksFor = naming.asksFor()
	}
	if compiled.Family = p.Family; p.Turns {
		compiled.Turns = new(wire.Turns)
	}
	if protocol.secure {
		compiled.Tls = tlsConfig(p, u, protocol.alpn)
	}
	return compiled, nil
}

func CheckRate(rate float64) error {
	if !(rate > 0) || rate > MaxRate {
		return fmt.Errorf("rate %v is not above 0 and at most %d requests per second", rate, MaxRate)
	}
	return nil
}

// kinds are the kinds of targets there are.
var kinds = []timeline.TargetKind{timeline.New, timeline.Reused, timeline.Direct, timeline.Held, timeline.Control}

func checkProbe(p Probe) error {
	if !slices.Contains(kinds, p.Kind) {
		return fmt.Errorf("no target kind %q", p.Kind)
	}
	if p.Kind == timeline.Direct && !p.Addr.IsValid() {
		return errors.New("a direct target needs an address")
	}
	if p.Family != 0 && p.Family != 4 && p.Family != 6 {
		return fmt.Errorf("address family %d is neither 4 nor 6", p.Family)
	}
	if p.Timeout < 0 || p.Timeout > math.MaxUint32*time.Microsecond {
		return fmt.Errorf("timeout %v is not within 71 minutes", p.Timeout)
	}
	if p.Connections < 0 || p.MaxConnections < 0 {
		return errors.New("a number of connections is negative")
	}
	return nil
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
	}
}
