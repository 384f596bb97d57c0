package protocol

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

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
		if err := p.Check(); test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// shop returns a descriptor set of a package shop: what protoc makes of
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
		if _, _, err := GRPCRequest(test.method, test.set, test.text); err == nil ||
			!strings.Contains(err.Error(), test.want) {
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
	seed := func(write func(c *loadtest.HTTP2Script)) {
		var out bytes.Buffer
		write(loadtest.NewHTTP2Script(&out, nil))
		f.Add(out.Bytes())
	}
	seed(func(c *loadtest.HTTP2Script) { c.GRPCReply(1, loadtest.ServingMessage, "grpc-status: 0") })
	seed(func(c *loadtest.HTTP2Script) {
		c.GRPCReply(1, []byte{8, 2}, "grpc-status: 0", "grpc-message: a%20b%zz")
	})
	seed(func(c *loadtest.HTTP2Script) {
		c.Header(1, true, "status: 200", "content-type: application/grpc", "grpc-status: 99")
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, message, err := readGRPC(t, bytes.NewReader(data))
		slow, _, late := readGRPC(t, iotest.OneByteReader(bytes.NewReader(data)))
		if fmt.Sprint(err, whole.Status, whole.class, whole.fault) != fmt.Sprint(late, slow.Status, slow.class,
			slow.fault) {
			t.Errorf("%q: %v %+v, and byte by byte %v %+v", data, err, whole, late, slow)
		}
		if err == nil && whole.fault == nil {
			if status, err := healthAnswer(message); err != nil || status != healthServing ||
				whole.class != timeline.OK || whole.Status != 0 {
				t.Errorf("%q: %+v", data, whole)
			}
		}
	})
}

func readGRPC(t *testing.T, source io.Reader) (r Reply, message []byte, err error) {
	g := &grpcReply{call: &grpcUnary{health: true}}
	h := newHTTP2Conn(testRequest(t, "grpc://web:80"), g, io.Discard, bufio.NewReaderSize(source, wire.ReadBuffer))
	h.Request()
	err = h.Read(h.in.Reader, &r)
	return r, g.message, err
}
