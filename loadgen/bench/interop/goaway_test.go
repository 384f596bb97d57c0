package interop

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"lapse/lapsetest"
	"lapse/timeline"
)

// The example of a gRPC server in docs/how-to/test-a-go-server.md. A server of grpc-go is replaced by another one on
// the same socket: GracefulStop sends GOAWAY and answers the calls that it has begun, so clients go over to the next.
func TestGracefulStopDropsNoCall(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	old := serveHealth(t, ln)
	m := lapsetest.Start(t, "grpc://"+ln.Addr().String(), lapsetest.Rate(200), lapsetest.Kinds(timeline.Reused), lapsetest.OrInconclusive())
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	next, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	serveHealth(t, next)
	old.GracefulStop()
	if r := m.Stop().NoFailures(); r.Verdict.Sent < 100 {
		t.Errorf("%d calls were made", r.Verdict.Sent)
	}
}

// serveHealth serves grpc.health.v1.Health, which Lapse calls unless it is told another method.
func serveHealth(t *testing.T, ln net.Listener) *grpc.Server {
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(ln) }() // ends with the test
	t.Cleanup(server.Stop)
	return server
}
