package protocol

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

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

	// LongestInlineSend is how many bytes a request may have that the pacing thread writes.
	LongestInlineSend = 4096
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
	// ClientCertificate returns the certificate for a server that asks for one; nil: there is none.
	ClientCertificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)

	Connections int // reused: how many are kept; default 10
	// MaxConnections is how many requests may be open at once, each on a connection of its own if its protocol has one
	// at a time; default ⌈Rate × (Timeout + 100 ms)⌉ + Connections
	MaxConnections int

	ExpectStatus  Statuses // HTTP: which status codes are a success; the zero value is 200 to 399
	ExpectBody    string   // HTTP: what a successful reply's body has in its first MiB; "" for anything
	BackendHeader string   // HTTP: the reply header that names the backend; default X-Pod
}

// CheckRate reports what is wrong with a rate.
func CheckRate(rate float64) error {
	if !(rate > 0) || rate > MaxRate {
		return fmt.Errorf("rate %v is not above 0 and at most %d requests per second", rate, MaxRate)
	}
	return nil
}

// kinds are the kinds of targets there are.
var kinds = []timeline.TargetKind{
	timeline.New, timeline.Reused, timeline.Direct, timeline.Held, timeline.Control, timeline.Plane,
}

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
