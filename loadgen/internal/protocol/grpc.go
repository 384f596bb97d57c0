package protocol

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"

	"lapse/internal/hint"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

var (
	grpcPlain = Protocol{
		Scheme:  "grpc",
		Example: "grpc://HOST:PORT[/SERVICE]",
		Paths:   true,
		Options: []string{
			"host", "header", "header-from", "expect-body", "backend-header", "ca-file",
			"grpc-method", "grpc-descriptors", "grpc-message",
		},
		streams: true,
		Proves:  provenByGRPC,
		compile: newGRPC,
	}
	grpcSecure = grpcPlain.overTLS("grpcs", http2.NextProtoTLS)
)

func provenByGRPC(p Probe) Proof {
	if p.GRPCMethod == "" {
		return Proof{Text: "the health check's answer SERVING"}
	}
	return Proof{Text: "a reply with grpc-status OK of " + p.GRPCMethod}
}

// grpcUnary calls a unary method of grpc:// and grpcs:// targets: by default the standard health check
// (grpc.health.v1.Health/Check), of the service that the URL's path names, or of the server as a whole. Connections
// are as of h2c:// and h2://.
//
// What a status means is Google's mapping to HTTP (google/rpc/code.proto). The outcome's Code is the grpc-status,
// from 0 to 99, or the status of HTTP where that is not 200.
//
//	grpc-status                                          class      as HTTP
//	0 OK                                                 ok         200
//	1 CANCELLED                                          http_4xx   499
//	3 INVALID_ARGUMENT, 9 FAILED_PRECONDITION,
//	11 OUT_OF_RANGE                                      http_4xx   400
//	16 UNAUTHENTICATED, 7 PERMISSION_DENIED, 5 NOT_FOUND http_4xx   401, 403, 404
//	6 ALREADY_EXISTS, 10 ABORTED                         http_4xx   409
//	8 RESOURCE_EXHAUSTED                                 http_4xx   429
//	2 UNKNOWN, 13 INTERNAL, 15 DATA_LOSS, any other      http_5xx   500
//	12 UNIMPLEMENTED                                     http_5xx   501
//	14 UNAVAILABLE                                       http_5xx   503
//	4 DEADLINE_EXCEEDED                                  http_5xx   504
//
//	what else happened                                                 class
//	the health check says NOT_SERVING, or anything but SERVING         http_5xx
//	an HTTP status other than 200                                      http_4xx, http_5xx, else body
//	no grpc-status; no gRPC in the reply (content-type); a message
//	cut short, compressed, without the expected text; none, or two     body
//	GOAWAY, RST_STREAM, no HTTP/2, no ALPN, no answer in time          as of h2c:// and h2://
type grpcUnary struct {
	http2Request
	backendHeader string
	text          []byte // that the reply's message contains
	health        bool
	service       string // whose health is asked for
}

const (
	healthMethod = "grpc.health.v1.Health/Check"
	grpcPrefix   = 5 // bytes before a message: whether it is compressed, and its length

	longestGRPCMessage = 32 << 10 // bytes: within the window that every stream begins with
)

func newGRPC(p Probe, u *url.URL) (Codec, error) {
	service := strings.Trim(u.Path, "/")
	switch {
	case p.GRPCMethod != "" && service != "":
		return nil, hint.Errorf("drop one of them",
			"the path %s names a service for the health check, but the method is %s", u.Path, p.GRPCMethod)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("URL %s: of gRPC, a path names a service, and nothing follows it", u.Redacted())
	case len(p.GRPCMessage) > longestGRPCMessage:
		return nil, fmt.Errorf("the message has %d bytes, and may have %d", len(p.GRPCMessage), longestGRPCMessage)
	}
	p.Method = ""
	if err := checkHTTP(p); err != nil {
		return nil, err
	}
	for name := range p.Header {
		if lower := strings.ToLower(name); lower == "content-type" || strings.HasPrefix(lower, "grpc-") {
			return nil, fmt.Errorf("header %s is set by Lapse and cannot be overridden", name)
		}
	}
	d := &grpcUnary{
		backendHeader: strings.ToLower(cmp.Or(p.BackendHeader, DefaultBackendHeader)),
		text:          []byte(p.ExpectBody), health: p.GRPCMethod == "", service: service,
	}
	message := p.GRPCMessage
	if d.health {
		message = healthQuestion(service)
	}
	fields := []hpack.HeaderField{
		{Name: ":method", Value: http.MethodPost},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}
	var err error
	d.http2Request, err = newHTTP2Request(p, u, "/"+cmp.Or(p.GRPCMethod, healthMethod), fields, framed(message))
	return d, err
}

// healthQuestion returns a grpc.health.v1.HealthCheckRequest.
func healthQuestion(service string) []byte {
	if service == "" {
		return nil
	}
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), service)
}

// framed returns a message as it is sent: not compressed.
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

func (d *grpcUnary) Awaits() bool { return true }

func (d *grpcUnary) Read(*bufio.Reader, *Reply) error { return wire.ErrMalformed }

func (d *grpcUnary) Begin(c *wire.Conn) (Dialog, error) {
	return d.http2Request.begin(c, &grpcReply{call: d})
}

// Judge: the reply's end was judged when it was read.
func (d *grpcUnary) Judge(r *Reply) (timeline.Class, error) {
	if r.fault != nil {
		return r.class, r.fault
	}
	return timeline.OK, nil
}

// A grpcReply reads the replies of a connection, one after the other.
type grpcReply struct {
	call    *grpcUnary
	http    int    // the status
	kind    string // the content-type
	code    string // of grpc-status; "" if there is none
	text    string // of grpc-message
	prefix  []byte
	message []byte // up to what is searched of it
	length  int64  // of the message, by its prefix
	got     int64
	more    bool // bytes follow the message
}

func (g *grpcReply) Another() http2Reply { return &grpcReply{call: g.call} }

func (g *grpcReply) start() {
	*g = grpcReply{call: g.call, prefix: g.prefix[:0], message: g.message[:0]}
}

func (g *grpcReply) header(f *http2.MetaHeadersFrame, r *Reply) error {
	status, err := http2Status(f)
	if err != nil || status < 200 {
		return err
	}
	g.http, r.InBody = status, true
	g.fields(f, r)
	if !f.StreamEnded() {
		g.code = "" // belongs into the trailer
	}
	return nil
}

func (g *grpcReply) trailer(f *http2.MetaHeadersFrame, r *Reply) error {
	g.fields(f, r)
	return nil
}

func (g *grpcReply) fields(f *http2.MetaHeadersFrame, r *Reply) {
	for _, field := range f.RegularFields() {
		switch field.Name {
		case "content-type":
			g.kind = field.Value
		case "grpc-status":
			g.code = field.Value
		case "grpc-message":
			g.text = field.Value
		case g.call.backendHeader:
			if len(r.Backend) == 0 {
				r.Backend = append(r.Backend, strings.TrimSpace(field.Value)...)
			}
		}
	}
}

func (g *grpcReply) data(piece []byte, _ *Reply) error {
	if n := min(grpcPrefix-len(g.prefix), len(piece)); n > 0 {
		g.prefix = append(g.prefix, piece[:n]...)
		piece = piece[n:]
		if len(g.prefix) == grpcPrefix {
			g.length = int64(binary.BigEndian.Uint32(g.prefix[1:]))
		}
	}
	whole := min(g.length-g.got, int64(len(piece)))
	g.more = g.more || int64(len(piece)) > whole
	g.got += whole
	g.message = append(g.message, piece[:min(whole, int64(searchedBytes-len(g.message)))]...)
	return nil
}

func (g *grpcReply) end(r *Reply) error {
	r.Status, r.class, r.fault = g.outcome()
	return nil
}

// outcome judges a reply that has ended.
func (g *grpcReply) outcome() (code int, class timeline.Class, fault error) {
	switch {
	case g.http != http.StatusOK:
		fault = fmt.Errorf("%w, in HTTP and not in gRPC", wire.UnexpectedStatus(g.http))
		return g.http, wire.StatusClass(g.http), fault
	case !strings.HasPrefix(g.kind, "application/grpc"):
		return 0, timeline.Body, wire.Malformed(fmt.Sprintf("no gRPC: its content-type is %q", g.kind))
	case g.code == "":
		return 0, timeline.Body, wire.Malformed("no grpc-status")
	}
	code, err := strconv.Atoi(g.code)
	switch {
	case err != nil || code < 0 || code > 99:
		return 0, timeline.Body, wire.Malformed(fmt.Sprintf("grpc-status %q", g.code))
	case code != 0:
		return code, grpcClass(code), g.status(code)
	}
	class, fault = g.content()
	return 0, class, fault
}

// status returns the error of a grpc-status: "grpc-status 14 UNAVAILABLE: message".
func (g *grpcReply) status(code int) error {
	text := fmt.Sprintf("grpc-status %d %s", code, grpcName(code))
	if g.text != "" {
		text += ": " + percentDecoded(g.text)
	}
	switch {
	case g.call.health && code == grpcUnimplemented:
		text += ": the server has no health check: name a method that it has, as in --grpc-method"
	case g.call.health && code == grpcNotFound:
		text += fmt.Sprintf(": its health check does not know the service %q", g.call.service)
	}
	return errors.New(text)
}

// content judges the message of a reply with the grpc-status OK.
func (g *grpcReply) content() (timeline.Class, error) {
	switch {
	case len(g.prefix) == 0:
		return timeline.Body, wire.Malformed("no message, but grpc-status 0")
	case g.prefix[0] != 0:
		return timeline.Body, wire.Malformed("a compressed message, which was not asked for")
	case len(g.prefix) < grpcPrefix, g.got < g.length:
		return timeline.Body, fmt.Errorf("%w: %d bytes of a message of %d", wire.ErrTruncated, g.got, g.length)
	case g.more:
		return timeline.Body, wire.Malformed("more than one message: the method streams")
	case !strings.Contains(string(g.message), string(g.call.text)):
		return timeline.Body, fmt.Errorf("the message lacks %q", g.call.text)
	case g.call.health:
		return g.serving()
	}
	return timeline.OK, nil
}

// serving judges a grpc.health.v1.HealthCheckResponse.
func (g *grpcReply) serving() (timeline.Class, error) {
	status, err := healthAnswer(g.message)
	switch {
	case err != nil:
		return timeline.Body, wire.Malformed("a health check's answer that cannot be read: " + err.Error())
	case status != healthServing:
		return timeline.HTTP5xx, fmt.Errorf("the health check says %s", healthName(status))
	}
	return timeline.OK, nil
}

const healthServing = 1

// healthAnswer reads the field status, an enum. 0 stands for its absence.
func healthAnswer(message []byte) (status uint64, err error) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		message = message[n:]
		if number == 1 && kind == protowire.VarintType {
			if status, n = protowire.ConsumeVarint(message); n < 0 {
				return 0, protowire.ParseError(n)
			}
		} else if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return 0, protowire.ParseError(n)
		}
		message = message[n:]
	}
	return status, nil
}

func healthName(status uint64) string {
	names := []string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}
	if status < uint64(len(names)) {
		return names[status]
	}
	return fmt.Sprintf("status %d", status)
}

const (
	grpcNotFound      = 5
	grpcUnimplemented = 12
)

// grpcCodes are the names of grpc-status, and the HTTP status of each by google/rpc/code.proto.
var grpcCodes = []struct {
	name string
	http int
}{
	{"OK", 200},
	{"CANCELLED", 499},
	{"UNKNOWN", 500},
	{"INVALID_ARGUMENT", 400},
	{"DEADLINE_EXCEEDED", 504},
	{"NOT_FOUND", 404},
	{"ALREADY_EXISTS", 409},
	{"PERMISSION_DENIED", 403},
	{"RESOURCE_EXHAUSTED", 429},
	{"FAILED_PRECONDITION", 400},
	{"ABORTED", 409},
	{"OUT_OF_RANGE", 400},
	{"UNIMPLEMENTED", 501},
	{"INTERNAL", 500},
	{"UNAVAILABLE", 503},
	{"DATA_LOSS", 500},
	{"UNAUTHENTICATED", 401},
}

func grpcName(code int) string {
	if code < len(grpcCodes) {
		return grpcCodes[code].name
	}
	return "of no known name"
}

func grpcClass(code int) timeline.Class {
	if code == 0 {
		return timeline.OK
	}
	if code < len(grpcCodes) {
		return wire.StatusClass(grpcCodes[code].http)
	}
	return timeline.HTTP5xx
}

// percentDecoded returns a grpc-message as it was meant. What is no escape stays as it is.
func percentDecoded(text string) string {
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded
	}
	return text
}
