package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"fortio.org/fortio/fgrpc"
	"fortio.org/fortio/periodic"
	"github.com/bojand/ghz/runner"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// grpcTools are those that call the health check over gRPC.
var (
	fortioGRPC = tool{name: "fortio -grpc -uniform", role: runFortioGRPC, silent: true}
	ghz        = tool{name: "ghz", role: runGHZ, silent: true}
	grpcTools  = []tool{fortioGRPC, ghz, lapseEngine, lapseRun}
)

// grpcAddress returns the host and port of a URL.
func grpcAddress(l load) string { return strings.TrimPrefix(strings.TrimSuffix(l.URL, "/"), "grpc://") }

// runFortioGRPC does what `fortio load -grpc -health -uniform -qps … -c … -t …` does: a connection for each of its
// threads.
func runFortioGRPC(_ context.Context, l load) (o outcome, err error) {
	results, err := fgrpc.RunGRPCTest(&fgrpc.GRPCRunnerOptions{
		RunnerOptions: periodic.RunnerOptions{
			QPS:        l.Rate,
			NumThreads: l.Connections,
			Duration:   l.For,
			Uniform:    true,
			Out:        io.Discard,
		},
		Destination: grpcAddress(l),
	})
	if err != nil {
		return o, err
	}
	for code, n := range results.RetCodes {
		o.Requests += int(n)
		if code != healthpb.HealthCheckResponse_SERVING.String() {
			o.Failed += int(n)
		}
	}
	return o, nil
}

// runGHZ does what `ghz --insecure --protoset … --call grpc.health.v1.Health/Check --rps … --connections … -c … -z …`
// does.
func runGHZ(_ context.Context, l load) (o outcome, err error) {
	health := protodesc.ToFileDescriptorProto(healthpb.File_grpc_health_v1_health_proto)
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{health}})
	if err != nil {
		return o, err
	}
	report, err := runner.Run("grpc.health.v1.Health.Check", grpcAddress(l),
		runner.WithInsecure(true),
		runner.WithProtosetBinary(set),
		runner.WithDataFromJSON("{}"),
		runner.WithRPS(uint(l.Rate)),
		runner.WithConnections(uint(l.Connections)),
		runner.WithConcurrency(uint(l.Connections)),
		runner.WithRunDuration(l.For),
		runner.WithDurationStopAction("wait"),
		runner.WithTimeout(800*time.Millisecond))
	if err != nil {
		return o, fmt.Errorf("ghz: %w", err)
	}
	o.Requests = int(report.Count)
	for status, n := range report.StatusCodeDist {
		if status != "OK" {
			o.Failed += n
		}
	}
	return o, nil
}
