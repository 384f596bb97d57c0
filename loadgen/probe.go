package loadgen

import (
	"bytes"
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

	longestInlineSend = 4096 // bytes; longer requests are not written by the pacing thread
)

// A Probe is a target and how to ask it.
type Probe struct {
	timeline.Target

	Method string      // default GET. Requests carry no body.
	Host   string      // Host header and server name (SNI) where they differ from the URL's host
	Header http.Header // sent with every request

	RootCAs            *x509.CertPool // whom to trust; nil for the system's
	InsecureSkipVerify bool           // trust any certificate

	Connections    int // reused: how many are kept; default 10
	MaxConnections int // how many may be in use at once; default ⌈Rate × Timeout⌉ + Connections

	ExpectStatus  Statuses // which status codes are a success; the zero value is 200 to 399
	ExpectBody    string   // what a successful reply's body has in its first MiB; "" for anything
	BackendHeader string   // the reply header that names the backend; default X-Pod
}

// A plan is a Probe checked and prepared: everything a request needs that does not change.
type plan struct {
	id       uint16
	kind     timeline.TargetKind
	timeout  time.Duration
	request  []byte         // as written
	addr     netip.AddrPort // where to connect; invalid if host must be resolved first
	host     string
	port     uint16
	tls      *tls.Config // nil for plain HTTP
	expect   Statuses
	want     wanted
	ports    *portBook // local ports to connect from
	keep     int       // connections kept
	maxInUse int       // 0: follows from the rate
}

// newPlan checks p. Errors say which of its parts is wrong.
func newPlan(p Probe) (*plan, error) {
	u, err := parseURL(p.URL)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", p.Name, err)
	}
	if err := errors.Join(checkRate(p.Rate), checkProbe(p)); err != nil {
		return nil, fmt.Errorf("target %q: %w", p.Name, err)
	}
	plan := &plan{
		id:       p.ID,
		kind:     p.Kind,
		timeout:  cmp.Or(p.Timeout, DefaultTimeout),
		request:  formatRequest(p, u),
		expect:   p.ExpectStatus,
		keep:     cmp.Or(p.Connections, DefaultConnections),
		maxInUse: p.MaxConnections,
		want: wanted{
			head:          p.Method == http.MethodHead,
			backendHeader: strings.ToLower(cmp.Or(p.BackendHeader, DefaultBackendHeader)),
			body:          []byte(p.ExpectBody),
		},
	}
	if err := plan.setAddress(p, u); err != nil {
		return nil, fmt.Errorf("target %q: %w", p.Name, err)
	}
	if u.Scheme == "https" {
		plan.tls = tlsConfig(p, u)
	}
	return plan, nil
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: targets look like http://host:port/path", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("URL %s: scheme %q is not http or https", u.Redacted(), u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("URL %s names no host", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("URL %s carries credentials\nhint: send them with --header 'Authorization: …'", u.Redacted())
	}
	return u, nil
}

func checkRate(rate float64) error {
	if !(rate > 0) || rate > MaxRate {
		return fmt.Errorf("rate %v is not above 0 and at most %d requests per second", rate, MaxRate)
	}
	return nil
}

func checkProbe(p Probe) error {
	if engines[p.Kind] == nil {
		return fmt.Errorf("no target kind %q", p.Kind)
	}
	if p.Kind == timeline.Direct && !p.Addr.IsValid() {
		return errors.New("a direct target needs an address")
	}
	if p.Timeout < 0 || p.Timeout > math.MaxUint32*time.Microsecond {
		return fmt.Errorf("timeout %v is not within 71 minutes", p.Timeout)
	}
	if p.Connections < 0 || p.MaxConnections < 0 {
		return errors.New("a number of connections is negative")
	}
	if !validToken(cmp.Or(p.Method, http.MethodGet)) || p.Method == http.MethodConnect {
		return fmt.Errorf("method %q cannot be sent", p.Method)
	}
	if p.BackendHeader != "" && !validToken(p.BackendHeader) {
		return fmt.Errorf("backend header %q is not a header name", p.BackendHeader)
	}
	if strings.ContainsFunc(p.Host, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }) {
		return fmt.Errorf("host %q is not a host name", p.Host)
	}
	return checkHeader(p.Header)
}

func checkHeader(header http.Header) error {
	for name, values := range header {
		if !validToken(name) {
			return fmt.Errorf("header name %q has a character that names cannot have", name)
		}
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Connection":
			return fmt.Errorf("header %s is ours to set", name)
		}
		for _, value := range values {
			if !validValue([]byte(value)) {
				return fmt.Errorf("header %s has a value with control characters", name)
			}
		}
	}
	return nil
}

func validToken(name string) bool {
	return validName([]byte(name)) && !strings.Contains(name, " ")
}

// setAddress decides where connections go: to the endpoint itself for a direct target, else to the
// URL's host.
func (p *plan) setAddress(probe Probe, u *url.URL) error {
	if probe.Kind == timeline.Direct {
		p.addr = probe.Addr
		return nil
	}
	port, err := net.LookupPort("tcp", cmp.Or(u.Port(), u.Scheme))
	if err != nil {
		return fmt.Errorf("URL %s: %w", u, err)
	}
	p.host, p.port = u.Hostname(), uint16(port)
	if ip, err := netip.ParseAddr(p.host); err == nil {
		p.addr = netip.AddrPortFrom(ip, p.port)
	}
	return nil
}

// tlsConfig asks for HTTP/1.1 and resumes no session, so that every handshake is a full one.
func tlsConfig(p Probe, u *url.URL) *tls.Config {
	name := cmp.Or(p.Host, u.Host)
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	return &tls.Config{
		ServerName:         strings.TrimSuffix(strings.Trim(name, "[]"), "."),
		RootCAs:            p.RootCAs,
		InsecureSkipVerify: p.InsecureSkipVerify,
		NextProtos:         []string{"http/1.1"},
	}
}

// hostHeader is the URL's host without the final dot, which only spares the resolver its search list.
func hostHeader(u *url.URL) string {
	host := strings.TrimSuffix(u.Hostname(), ".")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" {
		return host + ":" + port
	}
	return host
}

// formatRequest writes the request that is sent over and over.
//
// A target with a fresh connection per request says Connection: close: it is true, and it lets a server
// forget the connection as soon as it has answered.
func formatRequest(p Probe, u *url.URL) []byte {
	var b bytes.Buffer
	method := cmp.Or(p.Method, http.MethodGet)
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, u.RequestURI())
	fmt.Fprintf(&b, "Host: %s\r\n", cmp.Or(p.Header.Get("Host"), p.Host, hostHeader(u)))
	if p.Header.Get("User-Agent") == "" {
		b.WriteString("User-Agent: lapse\r\n")
	}
	if p.Header.Get("Accept") == "" {
		b.WriteString("Accept: */*\r\n")
	}
	if slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method) {
		b.WriteString("Content-Length: 0\r\n")
	}
	if p.Kind == timeline.New || p.Kind == timeline.Direct {
		b.WriteString("Connection: close\r\n")
	}
	header := p.Header.Clone()
	header.Del("Host")
	_ = header.Write(&b) // to memory
	b.WriteString("\r\n")
	return b.Bytes()
}
