package protocol

import (
	"bufio"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A Protocol is what is said on a target's connections. Each has a file that declares it, and a line in [Protocols].
type Protocol struct {
	Scheme  string   // of its targets' URLs
	Example string   // a target, for hints
	Port    string   // default port; "" where the URL must name one
	Paths   bool     // URLs may have a path and a query
	Options []string // which flags of `lapse run` mean something to it, of those that not every protocol takes

	// Persistent reports whether requests on a persistent connection show anything of the target; nil: always. If not,
	// NewOnly says why.
	Persistent func(Probe) bool
	NewOnly    string
	Proves     func(Probe) Proof
	// Beware says what a probe does not show of its target, if anything; nil: nothing.
	Beware func(Probe) string

	datagrams bool // spoken over UDP
	streams   bool // spoken over HTTP/2: a connection carries several requests at once

	secure  bool     // spoken over TLS
	alpn    []string // what is offered by ALPN; none: no ALPN
	compile func(Probe, *url.URL) (Codec, error)
}

// overTLS returns p over TLS: with a scheme, the default port 443, and what is offered by ALPN.
func (p Protocol) overTLS(scheme string, alpn ...string) Protocol {
	if p.Port == "" {
		p.Example = strings.Replace(p.Example, ":PORT", "[:PORT]", 1)
	}
	p.Example = scheme + strings.TrimPrefix(p.Example, p.Scheme)
	p.Scheme, p.Port, p.secure, p.alpn = scheme, "443", true, alpn
	return p
}

// A Proof is what a success of a probe proves of its target.
type Proof struct {
	Text  string // "a reply with status 200 to 399"
	Blind bool   // no answer of the application is awaited: somebody accepted a connection, and no more is known
}

// Transport returns what carries p: "tcp" or "udp".
func (p Protocol) Transport() string {
	if p.datagrams {
		return "udp"
	}
	return "tcp"
}

// A Codec is a protocol prepared for one target. It is shared by the target's connections and keeps no state: a
// protocol whose connections have one is [Stateful].
type Codec interface {
	// Request is what is written for each request, byte for byte. It is empty where nothing is.
	Request() []byte
	// Awaits reports whether a reply is awaited. If not, a request that was written is a success.
	Awaits() bool
	// Read reads the next reply, of which at least one byte has arrived or is an error away. Errors are
	// wire.ErrMalformed, wire.ErrUnexpected, wire.ErrTruncated, io.EOF where the reply has not begun in earnest, or
	// the connection's own. It must not allocate in the steady state: r keeps its buffers from one reply to the next.
	Read(br *bufio.Reader, r *Reply) error
	// Judge says how a reply that was read whole counts, and if that is no success, what it has wrong with it.
	Judge(r *Reply) (timeline.Class, error)
}

// A Stateful codec begins each connection with an exchange of its own, such as an upgrade. From then on the
// connection has a dialog. The codec's own request and read are not used.
type Stateful interface {
	Codec
	// Begin makes the exchange. The deadline of c is set; its errors are as of read, or an unexpectedStatus.
	Begin(c *wire.Conn) (Dialog, error)
}

// A Dialog is a connection's state in a protocol in which the peer may speak without being asked. It is used by one
// goroutine at a time.
type Dialog interface {
	// Request is what is written for the next request. It is valid until the next call.
	Request() []byte
	// Read reads what comes up to the end of the reply to the last request, as [Codec]'s does.
	Read(br *bufio.Reader, r *Reply) error
	// Heed reads one message while no request is open. An error ends the connection.
	Heed(br *bufio.Reader) error
	// Farewell is what is written before a connection is closed on which all is well.
	Farewell() []byte
}

// A naming codec looks a name up by each request. Its dialogs are [NameDialog].
type naming interface {
	asksFor() string // the name, with a dot at its end
}

// A NameDialog knows what the name has.
type NameDialog interface {
	Found() []netip.Addr // the addresses in the last reply, lowest first; valid until the next one
}

// A Canceller is a dialog that can give up its open request and keep the connection, as HTTP/2 does.
type Canceller interface {
	// Cancel is what is written to give up the request whose reply did not come in time; nil if the connection cannot
	// be kept.
	Cancel() []byte
}

// LongestBackendName is how many bytes of a backend's name are kept.
const LongestBackendName = 256

// A Reply is what was read of one.
type Reply struct {
	Status         int    // 0 where the protocol has none
	InBody         bool   // what precedes the body was whole
	Last           bool   // the connection carries no further reply
	Backend        []byte // who served it, in its own words
	bodyAsExpected bool
	Timed          bool           // Began tells when the reply began; otherwise it did with the first byte that came
	Began          time.Duration  // 0 if it did not
	class          timeline.Class // of a protocol that judges while it reads: how a reply that was read whole counts
	fault          error          // and what it has wrong with it
}

// reset empties r for the next reply. Its buffer stays.
func (r *Reply) reset() { *r = Reply{Backend: r.Backend[:0]} }
