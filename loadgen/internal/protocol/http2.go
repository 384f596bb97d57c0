package protocol

import (
	"bufio"
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

var (
	httpTwoPlain = Protocol{
		Scheme:  "h2c",
		Example: "h2c://HOST[:PORT][/PATH]",
		Port:    "80",
		Paths:   true,
		Options: []string{
			"method", "host", "header", "header-from", "expect-status", "expect-body", "backend-header", "ca-file",
		},
		streams: true,
		Proves:  provenByHTTP,
		compile: newHTTPTwo,
	}
	httpTwoSecure = httpTwoPlain.overTLS("h2", http2.NextProtoTLS)
)

// httpTwo speaks HTTP/2 (RFC 9113) to h2c:// targets, with prior knowledge, and to h2:// targets, over TLS with ALPN.
// A connection of a reused target carries several requests at once, any other one at a time: see
// docs/decisions/0025-http2-connections.md.
//
//	what happened                                                              class
//	a status that is no success, a body without the expected text              as of http://: http_4xx, http_5xx, body
//	the connection's end, or a GOAWAY that leaves the request out              eof, of a GOAWAY with its code
//	the stream is reset (RST_STREAM): the code is in the error's text          reset
//	the body is shorter or longer than content-length says, or the
//	connection ends within it; frames or fields against the rules              body
//	the preface is answered in HTTP/1.1, or in no HTTP                         body
//	the server does not choose h2 by ALPN                                      tls
//	no answer in time, to the preface or to the request                        timeout_response
//	no connection, no TLS                                                      as everywhere: refused, reset, tls, …
//
// A GOAWAY lets the requests up to its last stream finish: they are no failures, and the connection carries no other.
// On an idle connection it is no failure either. A request whose reply does not come in time is given up by
// RST_STREAM, and the connection stays, as with other clients of HTTP/2: if nothing comes on it at all, each request
// on it fails until the system ends the connection.
type httpTwo struct {
	http2Request
	want wanted
	httpExpectation
}

func newHTTPTwo(p Probe, u *url.URL) (Codec, error) {
	if err := checkHTTP(p); err != nil {
		return nil, err
	}
	method := cmp.Or(p.Method, http.MethodGet)
	fields := []hpack.HeaderField{{Name: ":method", Value: method}}
	if slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, method) {
		fields = append(fields, hpack.HeaderField{Name: "content-length", Value: "0"})
	}
	if p.Header.Get("Accept") == "" {
		fields = append(fields, hpack.HeaderField{Name: "accept", Value: "*/*"})
	}
	request, err := newHTTP2Request(p, u, u.RequestURI(), fields, nil)
	if err != nil {
		return nil, err
	}
	return &httpTwo{http2Request: request, want: wantedOf(p), httpExpectation: expectationOf(p)}, nil
}

func (d *httpTwo) Awaits() bool { return true }

func (d *httpTwo) Read(*bufio.Reader, *Reply) error { return wire.ErrMalformed }

func (d *httpTwo) Begin(c *wire.Conn) (Dialog, error) {
	return d.http2Request.begin(c, &httpTwoReply{want: &d.want})
}

// Judge: a stream that was reset has its class already.
func (d *httpTwo) Judge(r *Reply) (timeline.Class, error) {
	if r.fault != nil {
		return r.class, r.fault
	}
	return d.httpExpectation.Judge(r)
}

// A httpTwoReply reads the replies of a connection, one after the other.
type httpTwoReply struct {
	want   *wanted
	length int64 // that content-length says; -1 if it is not there
	got    int64
	finder
}

func (h *httpTwoReply) Another() http2Reply { return &httpTwoReply{want: h.want} }

func (h *httpTwoReply) start() {
	*h = httpTwoReply{want: h.want, length: -1, finder: finder{seen: h.seen[:0]}}
}

func (h *httpTwoReply) header(f *http2.MetaHeadersFrame, r *Reply) error {
	status, err := http2Status(f)
	if err != nil || status < 200 {
		return err
	}
	r.Status, r.InBody, r.bodyAsExpected = status, true, len(h.want.body) == 0
	for _, field := range f.RegularFields() {
		if err := h.field(field, r); err != nil {
			return err
		}
	}
	return nil
}

// http2Status returns the status of a header. Below 200 it is interim, and the header another's forerunner.
func http2Status(f *http2.MetaHeadersFrame) (int, error) {
	status, ok := statusCode([]byte(f.PseudoValue("status")))
	switch {
	case !ok, status == http.StatusSwitchingProtocols:
		return 0, wire.Malformed("no status code of HTTP/2")
	case status < 200 && f.StreamEnded():
		return 0, wire.Malformed("an interim status ends the stream")
	}
	return status, nil
}

func (h *httpTwoReply) field(field hpack.HeaderField, r *Reply) (err error) {
	switch field.Name {
	case h.want.backendHeader:
		if len(r.Backend) == 0 {
			r.Backend = append(r.Backend, strings.TrimSpace(field.Value)...)
		}
	case "content-length":
		n, ok := decimal([]byte(field.Value))
		if !ok || h.length >= 0 && h.length != n {
			return wire.Malformed("bad content-length, or two different ones")
		}
		h.length = n
	}
	return nil
}

func (h *httpTwoReply) data(piece []byte, r *Reply) error {
	h.got += int64(len(piece))
	h.find(r, h.want.body, piece)
	return nil
}

func (h *httpTwoReply) trailer(*http2.MetaHeadersFrame, *Reply) error { return nil }

// end checks the length that the header announced (RFC 9113, section 8.1.1).
func (h *httpTwoReply) end(r *Reply) error {
	if h.length < 0 || h.length == h.got || h.got == 0 && (h.want.head || r.Status == http.StatusNotModified) {
		return nil
	}
	r.class, r.fault = timeline.Body, fmt.Errorf("%w: %d bytes of %d", wire.ErrTruncated, h.got, h.length)
	return nil
}
