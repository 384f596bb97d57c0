package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"lapse/internal/run/runtest"
)

// These are the servers that the scripts measure. They serve until the test ends.

// serveEvents sends an event on a stream, and leaves it open.
func serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "data: hello\n\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// serveWebSocket answers pings.
func serveWebSocket(w http.ResponseWriter, r *http.Request) {
	c, err := new(websocket.Upgrader).Upgrade(w, r, nil)
	if err != nil {
		return // which it has answered
	}
	defer c.Close()
	for err == nil {
		_, _, err = c.NextReader()
	}
}

// serveEcho sends back what comes, until the test ends, and returns where.
func serveEcho(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	return listener.Addr().String()
}

// serveUDPEcho sends datagrams back, until the test ends, and returns where.
func serveUDPEcho(t *testing.T) (addr string) {
	t.Helper()
	return runtest.ServeUDP(t, "127.0.0.1:0", func(datagram []byte) []byte { return datagram })
}

// serveDNS answers queries until the test ends, and returns where: of web.shop with 10.0.0.1 and 10.0.0.2, of
// slow.shop not at all, of the rest that there is no such name.
func serveDNS(t *testing.T) (addr string) {
	t.Helper()
	return runtest.ServeUDP(t, "127.0.0.1:0", func(query []byte) []byte {
		var m dnsmessage.Message
		if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
			t.Errorf("a query that is none: %v", err)
			return nil
		}
		m.Response, m.Additionals = true, nil
		switch m.Questions[0].Name.String() {
		case "slow.shop.":
			return nil
		case "web.shop.":
			for host := byte(1); host <= 2 && m.Questions[0].Type == dnsmessage.TypeA; host++ {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, host}},
				})
			}
		default:
			m.RCode = dnsmessage.RCodeNameError
		}
		answer, err := m.Pack()
		if err != nil {
			t.Error(err)
		}
		return answer
	})
}

// shopDescriptors returns the path of a file with the descriptor set of
//
//	package shop; message Query { string name = 1; }
//	service Cart { rpc Get(Query) returns (Query); rpc Watch(Query) returns (stream Query); }
func shopDescriptors(t *testing.T) (path string) {
	t.Helper()
	query := new(".shop.Query")
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: new("shop.proto"), Package: new("shop"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Query"), Field: []*descriptorpb.FieldDescriptorProto{
			{Name: new("name"), Number: new(int32(1)), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
		}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Cart"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: new("Get"), InputType: query, OutputType: query},
			{Name: new("Watch"), InputType: query, OutputType: query, ServerStreaming: new(true)},
		}}},
	}}}
	b, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "shop.pb")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serveGRPC answers by gRPC and returns where: the health check says SERVING, of the service "asleep" NOT_SERVING,
// and shop.Cart/Get echoes.
func serveGRPC(t *testing.T) (addr string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		status := "0"
		switch {
		case r.URL.Path == "/shop.Cart/Get":
		case r.URL.Path != "/grpc.health.v1.Health/Check":
			status, message = "12", nil
		case bytes.Contains(message, []byte("asleep")):
			message = []byte("\x00\x00\x00\x00\x02\x08\x02")
		default:
			message = []byte("\x00\x00\x00\x00\x02\x08\x01")
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(message)
		w.Header().Set("Grpc-Status", status)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// takeTraces takes what is a trace with spans over OTLP/HTTP, and says that it did.
func takeTraces(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := new(collectorpb.ExportTraceServiceRequest)
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err != nil || r.URL.Path != "/v1/traces" || len(request.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()) == 0 {
		http.Error(w, fmt.Sprint("not a trace: ", err), http.StatusBadRequest)
		return
	}
	answer, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{ErrorMessage: "all of it"}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(answer)
}
