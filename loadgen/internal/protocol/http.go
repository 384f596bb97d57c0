package protocol

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

var (
	httpPlain = Protocol{
		Scheme:  "http",
		Example: "http://HOST[:PORT][/PATH]",
		Port:    "80",
		Paths:   true,
		Options: []string{
			"method", "host", "header", "header-from", "expect-status", "expect-body", "backend-header",
			"ca-file", "hammer",
		},
		Proves:  provenByHTTP,
		compile: newHTTP,
	}
	httpSecure = httpPlain.overTLS("https", "http/1.1")
)

// provenByHTTP returns what a success over any version of HTTP proves.
func provenByHTTP(p Probe) Proof {
	text := "a reply with status " + p.ExpectStatus.String()
	if p.ExpectBody != "" {
		text += fmt.Sprintf(" whose body has %q", p.ExpectBody)
	}
	return Proof{Text: text}
}

// httpOne speaks HTTP/1.1 to http:// and https:// targets. Replies are read by http1.go.
type httpOne struct {
	text []byte // the request
	want wanted
	httpExpectation
}

// A httpExpectation judges replies of HTTP, of whatever version.
type httpExpectation struct {
	statuses Statuses
	lacks    error // what a reply without the expected body has wrong with it
}

func expectationOf(p Probe) httpExpectation {
	return httpExpectation{statuses: p.ExpectStatus, lacks: fmt.Errorf("the body lacks %q", p.ExpectBody)}
}

func wantedOf(p Probe) wanted {
	return wanted{
		head:          p.Method == http.MethodHead,
		backendHeader: strings.ToLower(cmp.Or(p.BackendHeader, DefaultBackendHeader)),
		body:          []byte(p.ExpectBody),
	}
}

func newHTTP(p Probe, u *url.URL) (Codec, error) {
	if err := checkHTTP(p); err != nil {
		return nil, err
	}
	return &httpOne{text: formatRequest(p, u), want: wantedOf(p), httpExpectation: expectationOf(p)}, nil
}

func (d *httpOne) Request() []byte { return d.text }

func (d *httpOne) Awaits() bool { return true }

func (d *httpOne) Read(br *bufio.Reader, r *Reply) error { return r.read(br, &d.want) }

func (e *httpExpectation) Judge(r *Reply) (timeline.Class, error) {
	switch {
	case !e.statuses.Contains(r.Status):
		return wire.StatusClass(r.Status), wire.UnexpectedStatus(r.Status)
	case !r.bodyAsExpected:
		return timeline.Body, e.lacks
	}
	return timeline.OK, nil
}

func checkHTTP(p Probe) error {
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
			return fmt.Errorf("header %s is set by Lapse and cannot be overridden", name)
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

// HostHeader returns the URL's host without the final dot, which only spares the resolver its search list, and without
// a zone.
func HostHeader(u *url.URL) string {
	host := strings.TrimSuffix(withoutZone(u.Hostname()), ".")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" {
		return host + ":" + port
	}
	return host
}

// withoutZone returns a host without the zone of an IPv6 address, which has a meaning only on this machine (RFC 6874,
// section 1).
func withoutZone(host string) string {
	if strings.Contains(host, ":") {
		host, _, _ = strings.Cut(host, "%")
	}
	return host
}

// formatRequest writes the request that is sent over and over.
//
// On a connection for one request it says Connection: close: it is true, and a server can close the
// connection as soon as it has answered.
func formatRequest(p Probe, u *url.URL) []byte {
	var b bytes.Buffer
	method := cmp.Or(p.Method, http.MethodGet)
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, u.RequestURI())
	fmt.Fprintf(&b, "Host: %s\r\n", cmp.Or(p.Header.Get("Host"), p.Host, HostHeader(u)))
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
