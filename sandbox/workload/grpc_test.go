package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func grpcTo(t *testing.T, addr string, with credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(with))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// call is one unary call, and the Pod that its metadata names.
func call(t *testing.T, conn *grpc.ClientConn, method string, in, out proto.Message) (pod string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var header metadata.MD
	err = conn.Invoke(ctx, method, in, out, grpc.Header(&header))
	if names := header.Get("x-pod"); len(names) == 1 {
		pod = names[0]
	}
	return pod, err
}

func echo(t *testing.T, conn *grpc.ClientConn, message string) (string, error) {
	t.Helper()
	out := &wrapperspb.StringValue{}
	pod, err := call(t, conn, "/lapse.workload.Echo/Echo", wrapperspb.String(message), out)
	if err == nil && pod != "web-1" {
		t.Errorf("the metadata names %q", pod)
	}
	return out.Value, err
}

func health(t *testing.T, conn *grpc.ClientConn, service string) (string, error) {
	t.Helper()
	out := &grpc_health_v1.HealthCheckResponse{}
	_, err := call(t, conn, grpc_health_v1.Health_Check_FullMethodName,
		&grpc_health_v1.HealthCheckRequest{Service: service}, out)
	return out.Status.String(), err
}

func TestGRPCEchoesAndNamesThePod(t *testing.T) {
	conn := grpcTo(t, startProcess(t, "--grpc", "127.0.0.1:0").serves(t, "grpc"), insecure.NewCredentials())
	for message, want := range map[string]string{"ping": "ping", "who": "web-1"} {
		if got, err := echo(t, conn, message); got != want || err != nil {
			t.Errorf("the echo of %q is %q, %v", message, got, err)
		}
	}
}

func TestGRPCOverTLS(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	writeSelfSigned(t, cert, key)
	addr := startProcess(t, "--grpc", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key).serves(t, "grpc")
	if got, err := echo(t, grpcTo(t, addr, credentials.NewTLS(trustAll())), "ping"); got != "ping" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestGRPCHealthIsThatOfReadyz(t *testing.T) {
	w := startProcess(t, "--grpc", "127.0.0.1:0")
	conn := grpcTo(t, w.serves(t, "grpc"), insecure.NewCredentials())
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ call, want string }{{"/", "SERVING"},
		{"/ready/off", "NOT_SERVING"}, {"/ready/on", "SERVING"}} {
		status(t, w, step.call)
		for _, service := range []string{"", "lapse.workload.Echo"} {
			if got, err := health(t, conn, service); got != step.want || err != nil {
				t.Errorf("%s: %q is %s (%v), want %s", step.call, service, got, err, step.want)
			}
		}
		if got, err := watch.Recv(); err != nil || got.Status.String() != step.want {
			t.Errorf("%s: watched %v (%v), want %s", step.call, got, err, step.want)
		}
	}
	if _, err := health(t, conn, "other"); grpcCode(err) != codes.NotFound {
		t.Errorf("another service: %v", err)
	}
}

func TestBrokenGRPCIsUnavailable(t *testing.T) {
	w := startProcess(t, "--grpc", "127.0.0.1:0")
	conn := grpcTo(t, w.serves(t, "grpc"), insecure.NewCredentials())
	status(t, w, "/broken/on")
	if _, err := echo(t, conn, "ping"); grpcCode(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
}

// A call that is under way when the server ends gets its answer after GOAWAY, and none when the connection is cut.
func TestGRPCEndsWithGOAWAYOrCut(t *testing.T) {
	const latency = 2 * time.Second // the end comes well before the answer
	for _, c := range []struct {
		args     []string
		answered bool
	}{
		{[]string{"--on-sigterm", "graceful", "--drain-for", "0s"}, true},
		{[]string{"--on-sigterm", "graceful", "--drain-for", "0s", "--ends", "cut"}, false},
		{[]string{"--on-sigterm", "exit"}, false},
	} {
		w := startProcess(t, append(c.args, "--grpc", "127.0.0.1:0", "--latency", latency.String())...)
		conn := grpcTo(t, w.serves(t, "grpc"), insecure.NewCredentials())
		answer := make(chan error, 1)
		go func() {
			_, err := echo(t, conn, "ping")
			answer <- err
		}()
		w.counts(t, func(c Count) bool { return c.Started == 1 && c.Held == 1 })
		w.terminate(t)
		if err := <-answer; (err == nil) != c.answered || err != nil && grpcCode(err) != codes.Unavailable {
			t.Errorf("%v: %v, want an answer: %v", c.args, err, c.answered)
		}
		if left := conn.WaitForStateChange(t.Context(), connectivity.Ready); !left {
			t.Errorf("%v: the connection stands", c.args)
		}
		w.ends(t)
	}
}

func grpcCode(err error) codes.Code { return grpcstatus.Code(err) }

func TestProtosetDescribesTheEcho(t *testing.T) {
	var out bytes.Buffer
	if err := printProtoset(&out); err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(out.Bytes(), set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	found, err := files.FindDescriptorByName("lapse.workload.Echo.Echo")
	if err != nil || found.FullName() != "lapse.workload.Echo.Echo" {
		t.Errorf("%v, %v", found, err)
	}
}
