package main

import (
	"context"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A grpcServer has the standard health service (grpc.health.v1.Health, with the status of /readyz) and an echo:
//
//	service lapse.workload.Echo { rpc Echo(google.protobuf.StringValue) returns (google.protobuf.StringValue) }
//
// Every reply names the Pod in its metadata, x-pod. At the end of a graceful drain connections get a GOAWAY, and the
// calls under way their answers; with --ends cut, and of a server that exits at SIGTERM, connections are cut.
type grpcServer struct {
	grpc_health_v1.UnimplementedHealthServer
	*server
	ending chan struct{} // closed when the streams are to end
}

const echoService = "lapse.workload.Echo"

var echoDesc = grpc.ServiceDesc{
	ServiceName: echoService,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: handleEcho}},
	Metadata:    "lapse/workload/echo.proto",
}

func (s *server) openGRPC(addr string) (side, error) {
	config, err := s.certificate()
	if err != nil {
		return side{}, err
	}
	g := &grpcServer{server: s, ending: make(chan struct{})}
	options := []grpc.ServerOption{grpc.UnaryInterceptor(g.name), grpc.StreamInterceptor(g.nameStream),
		grpc.StatsHandler(connectionCount{s})}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	library := grpc.NewServer(options...)
	library.RegisterService(&echoDesc, g)
	grpc_health_v1.RegisterHealthServer(library, g)
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return side{}, err
	}
	return side{
		protocol: "grpc",
		addr:     listener.Addr(),
		serve:    func() error { return library.Serve(listener) },
		end: func(ctx context.Context) {
			close(g.ending)
			defer context.AfterFunc(ctx, library.Stop)()
			library.GracefulStop()
		},
		cut: library.Stop,
	}, nil
}

// name puts the Pod's name in a reply's header metadata.
func (g *grpcServer) name(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-pod", g.options.Name)); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

func (g *grpcServer) nameStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
	handle grpc.StreamHandler) error {
	if err := stream.SetHeader(metadata.Pairs("x-pod", g.options.Name)); err != nil {
		return err
	}
	return handle(server, stream)
}

func handleEcho(server any, ctx context.Context, decode func(any) error,
	intercept grpc.UnaryServerInterceptor) (any, error) {
	message := &wrapperspb.StringValue{}
	if err := decode(message); err != nil {
		return nil, err
	}
	echo := func(ctx context.Context, request any) (any, error) {
		return server.(*grpcServer).echo(ctx, request.(*wrapperspb.StringValue))
	}
	return intercept(ctx, message, &grpc.UnaryServerInfo{Server: server, FullMethod: "/" + echoService + "/Echo"},
		echo)
}

func (g *grpcServer) echo(ctx context.Context, message *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	if err := g.counts.answer(func() error { return g.takeTime(ctx) }); err != nil {
		return nil, grpcstatus.FromContextError(err).Err()
	}
	if g.broken() {
		return nil, grpcstatus.Error(codes.Unavailable, "switched off, or warming up")
	}
	return wrapperspb.String(string(g.echoOf([]byte(message.Value)))), nil
}

// Check returns the health of one service, or of the server if the request names none.
func (g *grpcServer) Check(ctx context.Context,
	request *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if request.Service != "" && request.Service != echoService {
		return nil, grpcstatus.Errorf(codes.NotFound, "no service %q", request.Service)
	}
	return &grpc_health_v1.HealthCheckResponse{Status: g.health(ctx)}, nil
}

// Watch sends the status at once, and again when it has changed. It looks every 100 ms.
func (g *grpcServer) Watch(request *grpc_health_v1.HealthCheckRequest,
	stream grpc_health_v1.Health_WatchServer) error {
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now := grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
		if request.Service == "" || request.Service == echoService {
			now = g.health(stream.Context())
		}
		if now != last {
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-g.ending:
			return grpcstatus.Error(codes.Unavailable, g.options.Name+" ends")
		}
	}
}

// health returns the status of all services. Like /readyz, it does not change while draining.
func (g *grpcServer) health(ctx context.Context) grpc_health_v1.HealthCheckResponse_ServingStatus {
	if g.notReady(ctx) != "" {
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

// connectionCount counts connections as the server of HTTP does.
type connectionCount struct{ *server }

func (c connectionCount) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.counts.connections.Add(1)
		c.held.others.Add(1)
	case *stats.ConnEnd:
		c.held.others.Add(-1)
	}
}

func (connectionCount) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (connectionCount) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connectionCount) HandleRPC(context.Context, stats.RPCStats)                         {}

// printProtoset writes the descriptor set of the echo, as protoc's --descriptor_set_out --include_imports does.
//
//	workload protoset > echo.binpb
func printProtoset(out io.Writer) error {
	message := proto.String(".google.protobuf.StringValue")
	wrappers := protodesc.ToFileDescriptorProto(wrapperspb.File_google_protobuf_wrappers_proto)
	echo := &descriptorpb.FileDescriptorProto{
		Name:       proto.String("lapse/workload/echo.proto"),
		Package:    proto.String("lapse.workload"),
		Syntax:     proto.String("proto3"),
		Dependency: []string{wrappers.GetName()},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("Echo"),
			Method: []*descriptorpb.MethodDescriptorProto{{Name: proto.String("Echo"),
				InputType: message, OutputType: message}},
		}},
	}
	files := []*descriptorpb.FileDescriptorProto{wrappers, echo}
	data, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}
