package loadgen

import (
	"net/netip"
	"net/url"

	"lapse/loadgen/internal/engine"
	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/wire"
)

// What a Prober is asked to measure is declared in the packages below it. These are its names for whoever asks.
type (
	// A Probe is a target and how to ask it.
	Probe = protocol.Probe
	// A Protocol is what is said on a target's connections.
	Protocol = protocol.Protocol
	// A Proof is what a success of a probe proves of its target.
	Proof = protocol.Proof
	// Statuses is a set of HTTP status codes. The zero value stands for 200 to 399.
	Statuses = protocol.Statuses
)

// The defaults and bounds of a [Probe].
const (
	DefaultTimeout       = protocol.DefaultTimeout
	DefaultConnections   = protocol.DefaultConnections
	DefaultBackendHeader = protocol.DefaultBackendHeader
	MaxRate              = protocol.MaxRate
)

// Protocols lists every protocol.
var Protocols = protocol.Protocols

// ProtocolOf returns the protocol of a scheme.
func ProtocolOf(scheme string) (_ Protocol, known bool) { return protocol.ProtocolOf(scheme) }

// Schemes lists the schemes of the protocols that take an option, or of all if it is empty: "http, https or tcp".
func Schemes(option string) string { return protocol.Schemes(option) }

// ProofOf returns what a success of p proves.
func ProofOf(p Probe) Proof { return protocol.ProofOf(p) }

// ParseURL reads a target's URL, of whatever protocol.
func ParseURL(text string) (*url.URL, error) { return protocol.ParseURL(text) }

// HostHeader returns the URL's host as the Host header has it: without a final dot and without a zone.
func HostHeader(u *url.URL) string { return protocol.HostHeader(u) }

// ParseStatuses reads a list of codes and ranges, such as "200,204,300-399".
func ParseStatuses(text string) (Statuses, error) { return protocol.ParseStatuses(text) }

// GRPCRequest finds a unary method in a descriptor set, and encodes the message to call it with from its JSON.
func GRPCRequest(method string, descriptors []byte, text string) (path string, message []byte, err error) {
	return protocol.GRPCRequest(method, descriptors, text)
}

// PlainError returns an error's text without what differs from connection to connection.
func PlainError(text string) string { return engine.PlainError(text) }

// HasRoute reports whether this machine has a route to addr.
func HasRoute(addr netip.Addr) bool { return wire.HasRoute(addr) }
