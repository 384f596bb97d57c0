package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// shopDescriptors is a file with the descriptor set of
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
