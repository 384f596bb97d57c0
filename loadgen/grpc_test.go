package loadgen

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"lapse/timeline"
)

// grpcReplies answers with a message and a status.
func (c *http2Script) grpcReplies(stream uint32, message []byte, trailer ...string) {
	c.header(stream, false, "status: 200", "content-type: application/grpc", "x-pod: pod-a")
	if message != nil {
		_ = c.WriteData(stream, false, framed(message))
	}
	c.header(stream, true, trailer...)
}

var servingMessage = []byte{8, healthServing}

// What a server answers to a call, and what becomes of it.
func TestGRPCOutcomes(t *testing.T) {
	t.Parallel()
	status := func(fields ...string) func(*http2Script, uint32) {
		return func(c *http2Script, s uint32) { c.grpcReplies(s, nil, fields...) }
	}
	tests := []struct {
		name   string
		answer func(c *http2Script, stream uint32)
		change func(*Probe)
		want   timeline.Class
		code   uint16
		says   string
	}{
		{"SERVING", func(c *http2Script, s uint32) { c.grpcReplies(s, servingMessage, "grpc-status: 0") }, nil, timeline.OK, 0, ""},
		{"SERVING, with fields of another version", func(c *http2Script, s uint32) {
			c.grpcReplies(s, append([]byte("\x12\x03new\x18\x05"), servingMessage...), "grpc-status: 0")
		}, nil, timeline.OK, 0, ""},
		{"NOT_SERVING", func(c *http2Script, s uint32) { c.grpcReplies(s, []byte{8, 2}, "grpc-status: 0") }, nil, timeline.HTTP5xx, 0, "http_5xx: the health check says NOT_SERVING"},
		{"an empty answer", func(c *http2Script, s uint32) { c.grpcReplies(s, []byte{}, "grpc-status: 0") }, nil, timeline.HTTP5xx, 0, "the health check says UNKNOWN"},
		{"UNAVAILABLE", status("grpc-status: 14", "grpc-message: going%20away: 100%"), nil, timeline.HTTP5xx, 14, "http_5xx: grpc-status 14 UNAVAILABLE: going%20away: 100%"},
		{"UNAVAILABLE, escaped", status("grpc-status: 14", "grpc-message: going%20away"), nil, timeline.HTTP5xx, 14, "grpc-status 14 UNAVAILABLE: going away"},
		{"UNIMPLEMENTED, trailers only", func(c *http2Script, s uint32) {
			c.header(s, true, "status: 200", "content-type: application/grpc", "grpc-status: 12", "grpc-message: unknown service")
		}, nil, timeline.HTTP5xx, 12, "grpc-status 12 UNIMPLEMENTED: unknown service: the server has no health check: name a method that it has, as in --grpc-method"},
		{"NOT_FOUND", status("grpc-status: 5"), func(p *Probe) { p.URL += "/cart" }, timeline.HTTP4xx, 5, `grpc-status 5 NOT_FOUND: its health check does not know the service "cart"`},
		{"NOT_FOUND of a method", status("grpc-status: 5", "grpc-message: no such cart"), func(p *Probe) { p.GRPCMethod = "shop.Cart/Get" }, timeline.HTTP4xx, 5, "http_4xx: grpc-status 5 NOT_FOUND: no such cart"},
		{"a code of no name", status("grpc-status: 42"), nil, timeline.HTTP5xx, 42, "grpc-status 42 of no known name"},
		{"no code", status("grpc-status: OK"), nil, timeline.Body, 0, `grpc-status "OK"`},
		{"no grpc-status", status("x-sum: 1"), nil, timeline.Body, 0, "body: malformed reply: no grpc-status"},
		{"the data end the stream", func(c *http2Script, s uint32) {
			c.header(s, false, "status: 200", "content-type: application/grpc", "grpc-status: 0")
			_ = c.WriteData(s, true, framed(servingMessage))
		}, nil, timeline.Body, 0, "no grpc-status"},
		{"no message", status("grpc-status: 0"), nil, timeline.Body, 0, "no message, but grpc-status 0"},
		{"half a message", func(c *http2Script, s uint32) {
			c.header(s, false, "status: 200", "content-type: application/grpc")
			_ = c.WriteData(s, false, framed(servingMessage)[:6])
			c.header(s, true, "grpc-status: 0")
		}, nil, timeline.Body, 0, "reply ended within its body: 1 bytes of a message of 2"},
		{"half a message's length", func(c *http2Script, s uint32) {
			c.header(s, false, "status: 200", "content-type: application/grpc")
			_ = c.WriteData(s, false, framed(servingMessage)[:3])
			c.header(s, true, "grpc-status: 0")
		}, nil, timeline.Body, 0, "reply ended within its body"},
		{"a message in pieces", func(c *http2Script, s uint32) {
			c.header(s, false, "status: 200", "content-type: application/grpc+proto")
			for _, b := range framed(servingMessage) {
				_ = c.WriteData(s, false, []byte{b})
			}
			c.header(s, true, "grpc-status: 0")
		}, nil, timeline.OK, 0, ""},
		{"two messages", func(c *http2Script, s uint32) {
			c.header(s, false, "status: 200", "content-type: application/grpc")
			_ = c.WriteData(s, false, append(framed(servingMessage), framed(servingMessage)...))
			c.header(s, true, "grpc-status: 0")
		}, nil, timeline.Body, 0, "more than one message: the method streams"},
		{"a compressed message", func(c *http2Script, s uint32) {
			c.header(s, false, "status: 200", "content-type: application/grpc")
			_ = c.WriteData(s, false, append([]byte{1}, framed(servingMessage)[1:]...))
			c.header(s, true, "grpc-status: 0")
		}, nil, timeline.Body, 0, "a compressed message, which was not asked for"},
		{"no health check's answer", func(c *http2Script, s uint32) { c.grpcReplies(s, []byte{8}, "grpc-status: 0") }, nil, timeline.Body, 0, "a health check's answer that cannot be read"},
		{"a method's answer", func(c *http2Script, s uint32) { c.grpcReplies(s, []byte("\x0a\x05hello"), "grpc-status: 0") },
			func(p *Probe) { p.GRPCMethod, p.ExpectBody = "shop.Cart/Get", "hello" }, timeline.OK, 0, ""},
		{"a method's empty answer", func(c *http2Script, s uint32) { c.grpcReplies(s, []byte{}, "grpc-status: 0") },
			func(p *Probe) { p.GRPCMethod = "shop.Cart/Get" }, timeline.OK, 0, ""},
		{"a method's other answer", func(c *http2Script, s uint32) { c.grpcReplies(s, []byte("\x0a\x05hullo"), "grpc-status: 0") },
			func(p *Probe) { p.GRPCMethod, p.ExpectBody = "shop.Cart/Get", "hello" }, timeline.Body, 0, `the message lacks "hello"`},
		{"a proxy's 502", func(c *http2Script, s uint32) { c.header(s, true, "status: 502", "content-type: text/html") }, nil, timeline.HTTP5xx, 502, "status 502 Bad Gateway, in HTTP and not in gRPC"},
		{"a page", func(c *http2Script, s uint32) {
			c.header(s, false, "status: 200", "content-type: text/html")
			_ = c.WriteData(s, true, []byte("<html>"))
		}, nil, timeline.Body, 0, `no gRPC: its content-type is "text/html"`},
		{"a reset stream", func(c *http2Script, s uint32) { _ = c.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, nil, timeline.Reset, 0, "reset: RST_STREAM REFUSED_STREAM"},
		{"a GOAWAY that leaves it out", func(c *http2Script, s uint32) { _ = c.WriteGoAway(0, http2.ErrCodeNo, nil) }, nil, timeline.EOF, 0, "eof: GOAWAY NO_ERROR: the request was not processed"},
		{"silence", func(*http2Script, uint32) {}, func(p *Probe) { p.Timeout = 200 * time.Millisecond }, timeline.TimeoutResponse, 0, ""},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				p := probe(1, kind, "grpc://"+scriptHTTP2(t, func(c *http2Script, stream uint32, _ int) bool {
					test.answer(c, stream)
					return true
				}), 20)
				p.MaxConnections = 1000
				if test.change != nil {
					test.change(&p)
				}
				outcomesAre(t, p, test.want, test.code, test.says)
			})
		}
	}
}

// The table of the doc comment.
func TestGRPCCodesHaveTheClassOfTheirHTTPStatus(t *testing.T) {
	for code, want := range map[int]timeline.Class{
		0: timeline.OK, 1: timeline.HTTP4xx, 2: timeline.HTTP5xx, 3: timeline.HTTP4xx, 4: timeline.HTTP5xx, 5: timeline.HTTP4xx, 6: timeline.HTTP4xx,
		7: timeline.HTTP4xx, 8: timeline.HTTP4xx, 9: timeline.HTTP4xx, 10: timeline.HTTP4xx, 11: timeline.HTTP4xx, 12: timeline.HTTP5xx,
		13: timeline.HTTP5xx, 14: timeline.HTTP5xx, 15: timeline.HTTP5xx, 16: timeline.HTTP4xx, 17: timeline.HTTP5xx, 99: timeline.HTTP5xx,
	} {
		if got := grpcClass(code); got != want {
			t.Errorf("%d %s is %v, want %v", code, grpcName(code), got, want)
		}
	}
}

// What is sent is what gRPC clients send, and net/http takes it.
func TestGRPCRequestIsAsSpecified(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/":          "POST /grpc.health.v1.Health/Check HTTP/2.0 [application/grpc] [trailers] \"\\x00\\x00\\x00\\x00\\x00\"",
		"/shop.Cart": "POST /grpc.health.v1.Health/Check HTTP/2.0 [application/grpc] [trailers] \"\\x00\\x00\\x00\\x00\\v\\n\\tshop.Cart\"",
	} {
		for _, scheme := range []string{"grpc", "grpcs"} {
			t.Run(scheme+path, func(t *testing.T) {
				t.Parallel()
				server := startHTTP2(t, map[string]string{"grpc": "h2c", "grpcs": "h2"}[scheme], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					w.Header().Set("Content-Type", "application/grpc")
					w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
					_, _ = w.Write(framed(servingMessage))
					w.Header().Set("Grpc-Status", "0")
					if got := fmt.Sprintf("%s %s %s %s %s %q", r.Method, r.URL, r.Proto, r.Header["Content-Type"], r.Header["Te"], body); got != want {
						w.Header().Set("Grpc-Status", "3")
						w.Header().Set("Grpc-Message", url.PathEscape(got))
					}
				}))
				outcomesAre(t, http2Probe(timeline.Reused, scheme, server, path, 20), timeline.OK, 0, "")
			})
		}
	}
}

// A message of the longest kind goes on one connection again and again: the server's WINDOW_UPDATEs are heeded, and
// where they stay away the connection is left before its window is exceeded.
func TestLongGRPCMessagesStayWithinTheWindow(t *testing.T) {
	t.Parallel()
	for name, updates := range map[string]bool{"with updates": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := scriptHTTP2(t, func(c *http2Script, stream uint32, n int) bool {
				if updates {
					_ = c.WriteWindowUpdate(0, longestGRPCMessage+grpcPrefix)
				} else if n > 1 { // 2 messages of 32 KiB and their prefixes exceed 64 KiB
					c.grpcReplies(stream, nil, "grpc-status: 13")
					return true
				}
				c.grpcReplies(stream, []byte{}, "grpc-status: 0")
				return true
			})
			p := probe(1, timeline.Reused, "grpc://"+addr, 20)
			p.Connections, p.GRPCMethod, p.GRPCMessage = 1, "shop.Cart/Put", make([]byte, longestGRPCMessage)
			f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
				waitFor(t, "10 good answers", func() bool { return f.ended(1, timeline.OK) >= 10 })
			}, p)
			again := 0
			for _, r := range f.of(1) {
				if r.Reused {
					again++
				}
			}
			if failed(f.of(1)) > 0 || (again > 0) != updates {
				t.Errorf("%v, %d reused: %q", classes(f.of(1)), again, f.blames(p.Name))
			}
		})
	}
}

func TestGRPCProbesAreChecked(t *testing.T) {
	tests := []struct {
		change func(*Probe)
		want   string
	}{
		{func(p *Probe) { p.URL = "grpc://web" }, "names no port"},
		{func(p *Probe) { p.URL += "/a?b=c" }, "a path names a service, and nothing follows it"},
		{func(p *Probe) { p.URL += "/cart"; p.GRPCMethod = "shop.Cart/Get" }, "the path /cart names a service for the health check, but the method is shop.Cart/Get"},
		{func(p *Probe) { p.Header = http.Header{"Grpc-Timeout": {"1S"}} }, "header Grpc-Timeout is set by Lapse"},
		{func(p *Probe) { p.Header = http.Header{"Content-Type": {"text/plain"}} }, "header Content-Type is set by Lapse"},
		{func(p *Probe) { p.GRPCMessage = make([]byte, longestGRPCMessage+1) }, "the message has 32769 bytes, and may have 32768"},
		{func(p *Probe) { p.URL = "grpcs://web" }, ""},
		{func(p *Probe) { p.Method = "HEAD" }, ""}, // of an HTTP target beside it
	}
	for _, test := range tests {
		p := probe(1, timeline.New, "grpc://web:80", 10)
		test.change(&p)
		if err := p.Check(); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// shop is a descriptor set of a package shop: what protoc makes of
//
//	message Query { string name = 1; int32 count = 2; }
//	service Cart { rpc Get(Query) returns (Query); rpc Watch(Query) returns (stream Query); }
func shop(t *testing.T) []byte {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: new("shop.proto"), Package: new("shop"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Query"), Field: []*descriptorpb.FieldDescriptorProto{
			{Name: new("name"), Number: new(int32(1)), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
			{Name: new("count"), Number: new(int32(2)), Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
		}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Cart"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: new("Get"), InputType: new(".shop.Query"), OutputType: new(".shop.Query")},
			{Name: new("Watch"), InputType: new(".shop.Query"), OutputType: new(".shop.Query"), ServerStreaming: new(true)},
		}}},
	}
	b, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGRPCRequestsAreMadeFromDescriptors(t *testing.T) {
	set := shop(t)
	for _, method := range []string{"shop.Cart/Get", "/shop.Cart/Get", "shop.Cart.Get"} {
		path, message, err := GRPCRequest(method, set, `{"name": "tea", "count": 3}`)
		if err != nil || path != "shop.Cart/Get" || string(message) != "\x0a\x03tea\x10\x03" {
			t.Errorf("%s: %q %q %v", method, path, message, err)
		}
	}
	if _, message, err := GRPCRequest("shop.Cart/Get", set, ""); err != nil || len(message) > 0 {
		t.Errorf("the empty message: %q %v", message, err)
	}
	importing := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: new("a.proto"), Dependency: []string{"missing.proto"}}}}
	broken, err := proto.Marshal(importing)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		method, text string
		set          []byte
		want         string
	}{
		{"shop.Cart/Put", "", set, "the descriptor set has no method shop.Cart/Put"},
		{"shop.Query", "", set, "the descriptor set has no method shop.Query"},
		{"", "", set, "the descriptor set has no method"},
		{"shop.Cart/Watch", "", set, "method shop.Cart/Watch streams"},
		{"shop.Cart/Get", "{", set, "the message is no shop.Query in JSON"},
		{"shop.Cart/Get", `{"nam": "tea"}`, set, `unknown field "nam"`},
		{"shop.Cart/Get", `{"count": "many"}`, set, "the message is no shop.Query in JSON"},
		{"shop.Cart/Get", "", nil, "cannot be read, or is empty"},
		{"shop.Cart/Get", "", []byte("syntax = \"proto3\";"), "cannot be read, or is empty"},
		{"shop.Cart/Get", "", broken, "the descriptor set is not whole"},
	}
	for _, test := range tests {
		if _, _, err := GRPCRequest(test.method, test.set, test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, want %q", test.method, test.text, err, test.want)
		}
	}
}

func FuzzGRPCRequestDoesNotPanic(f *testing.F) {
	set := shop(&testing.T{})
	f.Add("shop.Cart/Get", set, `{"name": "tea"}`)
	f.Add("/", []byte{}, "{}")
	f.Fuzz(func(t *testing.T, method string, descriptors []byte, text string) {
		path, _, err := GRPCRequest(method, descriptors, text)
		if err == nil && strings.Count(path, "/") != 1 {
			t.Errorf("%q", path)
		}
	})
}

// Whatever frames come, they are read alike however they arrive, and a success has a message that says SERVING.
func FuzzGRPCReplies(f *testing.F) {
	seed := func(write func(c *http2Script)) {
		var out bytes.Buffer
		c := &http2Script{Framer: http2.NewFramer(&out, nil)}
		c.AllowIllegalWrites, c.fields = true, hpack.NewEncoder(&c.block)
		write(c)
		f.Add(out.Bytes())
	}
	seed(func(c *http2Script) { c.grpcReplies(1, servingMessage, "grpc-status: 0") })
	seed(func(c *http2Script) { c.grpcReplies(1, []byte{8, 2}, "grpc-status: 0", "grpc-message: a%20b%zz") })
	seed(func(c *http2Script) {
		c.header(1, true, "status: 200", "content-type: application/grpc", "grpc-status: 99")
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, message, err := readGRPC(t, bytes.NewReader(data))
		slow, _, late := readGRPC(t, iotest.OneByteReader(bytes.NewReader(data)))
		if fmt.Sprint(err, whole.status, whole.class, whole.fault) != fmt.Sprint(late, slow.status, slow.class, slow.fault) {
			t.Errorf("%q: %v %+v, and byte by byte %v %+v", data, err, whole, late, slow)
		}
		if err == nil && whole.fault == nil {
			if status, err := healthAnswer(message); err != nil || status != healthServing || whole.class != timeline.OK || whole.status != 0 {
				t.Errorf("%q: %+v", data, whole)
			}
		}
	})
}

func readGRPC(t *testing.T, source io.Reader) (r reply, message []byte, err error) {
	g := &grpcReply{call: &grpcUnary{health: true}}
	h := newHTTP2Conn(testRequest(t, "grpc://web:80"), g, io.Discard, bufio.NewReaderSize(source, readBuffer))
	h.request()
	err = h.read(h.in.Reader, &r)
	return r, g.message, err
}
