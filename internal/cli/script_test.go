package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lapse/internal/kube/kubetest"
	"lapse/internal/layer"
	"lapse/loadgen/faultserver"
)

// atOnce is how many of the parallel tests run at the same time, unless -parallel says otherwise: most of them wait
// for a run.
const atOnce = "4"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	faultserver.Prioritize()
	testscript.Main(m, map[string]func(){
		"lapse": func() { os.Exit(Main(context.Background(), os.Args, os.Stdout, os.Stderr)) },
		"ask":   ask,

		"probers-of-many-nodes": probersOfManyNodes,
	})
}

// ask is the scripts' command `ask URL`: it awaits the answer.
func ask() {
	r, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r.Body.Close()
}

// exitsWith is the scripts' command `code N[,N...] CMD...`: it runs CMD, and fails unless it exits with one of the
// codes. (On a machine too busy to measure, a run is inconclusive, and rightly so.)
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N[,N...] CMD...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// TestScripts runs testdata/script: each is headed by what it proves. $URL is a server that answers, at $HOSTPORT,
// $BROKEN one that answers 500, $SILENT one that accepts and never answers, $CLOSED an address where nobody listens,
// $ECHO a host and port that echoes over TCP, $ECHOUDP one that does over UDP, $DNS a DNS server (see serveDNS),
// $SOCKET a WebSocket, $NEWS a host and port with an event stream, $TWO a host and port that speaks HTTP/2 alone,
// $GRPC one that speaks gRPC (see serveGRPC), $DESCRIPTORS the descriptor set of its service, $TAKEN a host and port
// where somebody listens, $API a Kubernetes API with a few Services (see fakeAPI), $LIVING the Service web of its
// namespace living, which can be made to change (see livingShop), $COLLECTOR takes traces (see takeTraces).
func TestScripts(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(good.Close) // the scripts run in parallel, after this function has returned
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }))
	t.Cleanup(broken.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts for it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	echo := serveEcho(t)
	echoUDP, dns := serveUDPEcho(t), serveDNS(t)
	socket := httptest.NewServer(http.HandlerFunc(serveWebSocket))
	t.Cleanup(socket.Close)
	two := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello from ", r.Proto) }))
	two.Config.Protocols = new(http.Protocols)
	two.Config.Protocols.SetUnencryptedHTTP2(true)
	two.Start()
	t.Cleanup(two.Close)
	grpc, descriptors := serveGRPC(t), shopDescriptors(t)
	collector := httptest.NewServer(http.HandlerFunc(takeTraces))
	t.Cleanup(collector.Close)
	news := httptest.NewServer(http.HandlerFunc(serveEvents))
	t.Cleanup(news.Close)
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	shop := newLivingShop(int32(listener.Addr().(*net.TCPAddr).Port))
	living := &http.Server{Handler: shop, ErrorLog: log.New(io.Discard, "", 0)}
	go living.Serve(listener)
	t.Cleanup(func() { living.Close() })
	api := httptest.NewServer(fakeAPI(shop))
	t.Cleanup(api.Close)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith},
		Setup: func(env *testscript.Env) error {
			env.Setenv("URL", good.URL)
			env.Setenv("BROKEN", broken.URL)
			env.Setenv("SILENT", "http://"+silent.Addr().String())
			env.Setenv("CLOSED", closed.URL)
			env.Setenv("API", api.URL)
			env.Setenv("LIVING", fmt.Sprintf("http://127.0.0.1:%d", shop.port))
			env.Setenv("ECHO", echo)
			env.Setenv("ECHOUDP", echoUDP)
			env.Setenv("DNS", dns)
			env.Setenv("SOCKET", "ws"+strings.TrimPrefix(socket.URL, "http"))
			env.Setenv("TWO", strings.TrimPrefix(two.URL, "http://"))
			env.Setenv("COLLECTOR", collector.URL)
			env.Setenv("NEWS", strings.TrimPrefix(news.URL, "http://"))
			env.Setenv("GRPC", grpc)
			env.Setenv("DESCRIPTORS", descriptors)
			env.Setenv("HOSTPORT", strings.TrimPrefix(good.URL, "http://"))
			env.Setenv("TAKEN", silent.Addr().String())
			env.Setenv("KUBECONFIG", env.WorkDir+"/kubeconfig")
			return os.WriteFile(env.WorkDir+"/kubeconfig", []byte(kubetest.Kubeconfig(api.URL)), 0o600)
		},
	})
}
