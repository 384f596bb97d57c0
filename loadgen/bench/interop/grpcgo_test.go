package interop

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"context"

	"lapse/loadgen"
	"lapse/timeline"
)

// grpcServer is one of grpc-go with the health check: of the server and of "shop.Cart" SERVING, of "asleep" NOT_SERVING.
func grpcServer(t *testing.T, options ...grpc.ServerOption) (s *grpc.Server, addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = grpc.NewServer(append(options, grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-pod", "pod-a"))
		return handle(ctx, in)
	}))...)
	checks := health.NewServer()
	checks.SetServingStatus("shop.Cart", healthpb.HealthCheckResponse_SERVING)
	checks.SetServingStatus("asleep", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(s, checks)
	serve(t, s, listener)
	return s, listener.Addr().String()
}

func serve(t *testing.T, s *grpc.Server, listener net.Listener) {
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

var kinds = []timeline.TargetKind{timeline.New, timeline.Reused}

func TestGRPCGoHealth(t *testing.T) {
	t.Parallel()
	_, addr := grpcServer(t)
	for _, kind := range kinds {
		for path, want := range map[string]struct {
			class timeline.Class
			says  string
		}{
			"":           {timeline.OK, ""},
			"/shop.Cart": {timeline.OK, ""},
			"/asleep":    {timeline.HTTP5xx, "http_5xx: the health check says NOT_SERVING"},
			"/unknown":   {timeline.HTTP4xx, `http_4xx: grpc-status 5 NOT_FOUND: unknown service: its health check does not know the service "unknown"`},
		} {
			t.Run(string(kind)+path, func(t *testing.T) {
				t.Parallel()
				allAre(t, probe(kind, "grpc://"+addr+path), want.class, want.says)
			})
		}
	}
}

// Its descriptors are those of the health check itself, as a generated package has them.
func TestGRPCGoMethod(t *testing.T) {
	t.Parallel()
	_, addr := grpcServer(t)
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(healthpb.File_grpc_health_v1_health_proto)}})
	if err != nil {
		t.Fatal(err)
	}
	for service, want := range map[string]timeline.Class{"shop.Cart": timeline.OK, "unknown": timeline.HTTP4xx} {
		p := probe(timeline.Reused, "grpc://"+addr)
		if p.GRPCMethod, p.GRPCMessage, err = loadgen.GRPCRequest("grpc.health.v1.Health/Check", set, `{"service": "`+service+`"}`); err != nil {
			t.Fatal(err)
		}
		says := ""
		if want != timeline.OK {
			says = "grpc-status 5 NOT_FOUND: unknown service"
		}
		allAre(t, p, want, says)
	}
	if _, _, err := loadgen.GRPCRequest("grpc.health.v1.Health/Watch", set, ""); err == nil {
		t.Error("a method that streams was taken")
	}
}

func TestGRPCGoNamesItsPodAndSpeaksTLS(t *testing.T) {
	t.Parallel()
	certFile, keyFile, roots := certificate(t)
	creds, err := credentials.NewServerTLSFromFile(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	_, addr := grpcServer(t, grpc.Creds(creds))
	p := probe(timeline.Reused, "grpcs://"+addr)
	p.RootCAs, p.Host = roots, "example.com"
	o := measure(t, p, func(o *outcomes) {
		until(t, "20 good answers", func() bool { return o.count(timeline.OK) >= 20 })
	})
	for _, r := range o.requests {
		if r.Class == timeline.OK && o.backends[r.Backend] != "pod-a" {
			t.Fatalf("%+v: %v", r, o)
		}
	}
	allAre(t, probe(timeline.New, "grpc://"+addr), timeline.EOF, "eof: the connection was closed in answer to the preface of HTTP/2: a server that speaks TLS")
}

// A server that limits the age of connections sends GOAWAY all the time, in two steps: no request fails for it.
func TestGRPCGoConnectionsOfLimitedAge(t *testing.T) {
	t.Parallel()
	_, addr := grpcServer(t, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 100 * time.Millisecond, MaxConnectionAgeGrace: time.Minute}))
	o := measure(t, probe(timeline.Reused, "grpc://"+addr), func(o *outcomes) {
		until(t, "200 observed requests", func() bool { return o.observed() >= 200 })
	})
	if o.count(timeline.OK) != o.observed() {
		t.Error(o)
	}
	first := 0
	for _, r := range o.requests {
		if !r.Reused {
			first++
		}
	}
	if first < 20 { // 4 s of 4 connections that live for 0.1 s
		t.Errorf("only %d connections", first)
	}
}

// A graceful stop lets what is open finish, and then nobody listens: nothing else fails.
func TestGRPCGoStopsGracefully(t *testing.T) {
	t.Parallel()
	s, addr := grpcServer(t)
	o := measure(t, probe(timeline.Reused, "grpc://"+addr), func(o *outcomes) {
		until(t, "50 good answers", func() bool { return o.count(timeline.OK) >= 50 })
		s.GracefulStop()
		until(t, "20 refusals", func() bool { return o.count(timeline.Refused) >= 20 })
	})
	// A request that was written as the connection ended may have been left out by the GOAWAY.
	if crossed := o.observed() - o.count(timeline.OK) - o.count(timeline.Refused); crossed > 4 || crossed != o.count(timeline.EOF)+o.count(timeline.Reset) {
		t.Error(o)
	}
}

func TestGRPCGoWithoutHealthCheck(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, grpc.NewServer(), listener)
	allAre(t, probe(timeline.New, "grpc://"+listener.Addr().String()), timeline.HTTP5xx,
		"http_5xx: grpc-status 12 UNIMPLEMENTED: unknown service grpc.health.v1.Health: the server has no health check: name a method that it has, as in --grpc-method")
}

// A gRPC port asked by HTTP/1.1 is named for what it is, or at least fails at once.
func TestGRPCGoAskedByHTTP1(t *testing.T) {
	t.Parallel()
	_, addr := grpcServer(t)
	for _, kind := range kinds {
		o := measure(t, probe(kind, "http://"+addr), func(o *outcomes) {
			until(t, "20 observed requests", func() bool { return o.observed() >= 20 })
		})
		t.Log(kind, o)
		if named := o.count(timeline.Body); named == 0 || named+o.count(timeline.Reset)+o.count(timeline.EOF) != o.observed() {
			t.Error(o)
		}
	}
	p := probe(timeline.New, "h2c://"+addr)
	allAre(t, p, timeline.HTTP4xx, "status 415 Unsupported Media Type")
}
