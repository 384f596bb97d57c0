package interop

import (
	"net"
	"sync"
	"sync/atomic"
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

// grpcServer is one of grpc-go with the health check: of the server and of "shop.Cart" SERVING, of "asleep"
// NOT_SERVING.
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

// slowHealth answers each check when a number of them are open.
type slowHealth struct {
	healthpb.UnimplementedHealthServer
	together int64
	open     atomic.Int64
	once     sync.Once
	reached  chan struct{}
	release  chan struct{}
}

func newSlowHealth(together int64) *slowHealth {
	return &slowHealth{together: together, reached: make(chan struct{}), release: make(chan struct{})}
}

func (h *slowHealth) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if h.open.Add(1) >= h.together {
		h.once.Do(func() { close(h.reached) })
	}
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

// connCounter counts the connections that a listener accepts.
type connCounter struct {
	net.Listener
	accepted atomic.Int64
}

func (l *connCounter) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return c, err
}

// waitingCalls measures a server of grpc-go with calls that are open, and does something to it then.
func waitingCalls(t *testing.T, together int64, act func(s *grpc.Server, h *slowHealth, o *outcomes), options ...grpc.ServerOption) (o *outcomes, conns int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counter := &connCounter{Listener: listener}
	s, h := grpc.NewServer(options...), newSlowHealth(together)
	healthpb.RegisterHealthServer(s, h)
	serve(t, s, counter)
	p := probe(timeline.Reused, "grpc://"+listener.Addr().String())
	p.Connections, p.MaxConnections = 1, int(together)
	o = measure(t, p, func(o *outcomes) {
		<-h.reached
		act(s, h, o)
	})
	return o, counter.accepted.Load()
}

// All calls of a client are on one connection, however long they take.
func TestGRPCGoCallsShareAConnection(t *testing.T) {
	t.Parallel()
	o, conns := waitingCalls(t, 20, func(_ *grpc.Server, h *slowHealth, o *outcomes) {
		close(h.release)
		until(t, "40 good answers", func() bool { return o.count(timeline.OK) >= 40 })
	})
	if o.count(timeline.OK)+o.count(timeline.NoSlot) != o.observed() || conns > 3 { // a slow machine opens spare ones while the first is not open yet
		t.Errorf("%d connections: %v", conns, o)
	}
}

// A server that stops while calls are open cuts them all: each is a failure.
func TestGRPCGoStopFailsEachOpenCall(t *testing.T) {
	t.Parallel()
	const together = 20
	o, _ := waitingCalls(t, together, func(s *grpc.Server, h *slowHealth, o *outcomes) {
		var stopping sync.WaitGroup
		stopping.Go(s.Stop)
		until(t, "refusals", func() bool { return o.count(timeline.Refused) >= 5 })
		stopping.Wait()
		close(h.release)
	})
	cut := o.count(timeline.EOF) + o.count(timeline.Reset)
	if local := o.count(timeline.Local); cut > together || cut+local < together || cut+o.count(timeline.Refused)+o.count(timeline.NoSlot) != o.observed() {
		t.Errorf("%d cut, %d local: %v", cut, local, o)
	}
}

// A graceful stop while calls are open sends two GOAWAYs and lets all of them finish, while nothing else connects.
func TestGRPCGoGracefulStopFinishesEachOpenCall(t *testing.T) {
	t.Parallel()
	const together = 20
	o, _ := waitingCalls(t, together, func(s *grpc.Server, h *slowHealth, o *outcomes) {
		var stopping sync.WaitGroup
		stopping.Go(s.GracefulStop)
		until(t, "no slot", func() bool { return o.count(timeline.NoSlot) >= 10 })
		close(h.release)
		until(t, "refusals", func() bool { return o.count(timeline.Refused) >= 5 })
		stopping.Wait()
	})
	if good := o.count(timeline.OK); good < together || good+o.count(timeline.Refused)+o.count(timeline.NoSlot) != o.observed() {
		t.Error(o)
	}
}

// A server that takes one stream on a connection gets one, and further calls over connections of their own.
func TestGRPCGoLimitOfOneStreamIsKept(t *testing.T) {
	t.Parallel()
	const together = 6
	o, conns := waitingCalls(t, together, func(_ *grpc.Server, h *slowHealth, o *outcomes) {
		close(h.release)
		until(t, "20 good answers", func() bool { return o.count(timeline.OK) >= 20 })
	}, grpc.MaxConcurrentStreams(1))
	if o.count(timeline.OK)+o.count(timeline.NoSlot) != o.observed() || conns < together {
		t.Errorf("%d connections: %v", conns, o)
	}
}
