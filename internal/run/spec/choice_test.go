package spec

import (
	"math"
	"strings"
	"testing"
	"time"

	"lapse/internal/hint"
	"lapse/internal/run/exit"
	"lapse/watcher"
)

func TestTwoRequestsOfEachNode(t *testing.T) {
	for _, test := range []struct {
		rate  float64
		nodes int
		want  time.Duration
	}{
		{100, 1, 20 * time.Millisecond},
		{5, 100, 40 * time.Second},
		{0.001, 1, 2000 * time.Second},
		{0.001, 100, time.Hour}, // nobody waits for days
	} {
		o := Options{Spec: Spec{Rate: test.rate}}
		if got := o.TwoRequests(test.nodes); got != test.want {
			t.Errorf("%v/s shared by %d nodes: %v, want %v", test.rate, test.nodes, got, test.want)
		}
	}
}

func TestServicesAreEitherNamedOrChosen(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		what   string
	}{
		"named":     {func(o *Options) { o.OnNode, o.Targets = "node1", []string{"svc/web"} }, "both --on-node node1 and a named target, svc/web"},
		"twice":     {func(o *Options) { o.OnNode, o.AllNamespaces = "node1", true }, "both --on-node and -A"},
		"namespace": {func(o *Options) { o.AllNamespaces, o.Kube.Namespace = true, "shop" }, "both -A and -n shop"},
		"hammer":    {func(o *Options) { o.AllNamespaces, o.Hammer = true, "-c 1" }, "--hammer loads one Service"},
		"watch":     {func(o *Options) { o.AllNamespaces, o.Watch = true, "svc/db" }, "--watch svc/db"},
		"no node":   {func(o *Options) { o.OnNode = "Node 1" }, "no name of a node"},
		"no labels": {func(o *Options) { o.Selector = "app==,=" }, `selector "app==,="`},
		"by hand":   {func(o *Options) { o.AllNamespaces, o.AgentListen = true, "127.0.0.1:1" }, "Services are chosen on the workstation"},
		"both rates": {func(o *Options) {
			o.TotalRate = 10
			o.Given = map[string]bool{"rate": true, "total-rate": true}
		}, "both --rate and --total-rate"},
		"no rate": {func(o *Options) {
			o.TotalRate = math.NaN()
			o.Given = map[string]bool{"total-rate": true}
		}, "total-rate NaN"},
	} {
		o := choosing()
		test.change(o)
		err := checkTotalRate(o)
		if o.Chooses() {
			err = o.CheckTargets()
		}
		if err == nil || !strings.Contains(err.Error(), test.what) || hint.Of(err) == "" || exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: %v, hint %q; want %q", name, err, hint.Of(err), test.what)
		}
	}
}

// What is spoken is read off the port, unless --scheme says it.
func TestTheProtocolOfAChosenServiceFollowsFromItsPort(t *testing.T) {
	for _, test := range []struct {
		protocol, name string
		port           int32
		want           string
	}{
		{"", "http", 9000, "http"}, {"", "", 8080, "http"}, {"", "http-metrics", 9090, "http"}, {"", "web", 3000, "http"}, {"", "", 443, "https"}, {"", "https", 8443, "https"},
		{"HTTP", "main", 5000, "http"}, {"kubernetes.io/h2c", "http", 80, "h2c"}, {"", "grpc", 80, "tcp"}, {"", "postgres", 5432, "tcp"}, {"", "", 6379, "tcp"},
	} {
		info := watcher.Info{Port: test.port, PortName: test.name, AppProtocol: test.protocol}
		if got := choosing().SchemeFor(info); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
		if got := choosing("scheme").SchemeFor(info); got != "" {
			t.Errorf("%+v with --scheme: %q", test, got)
		}
	}
}

// choosing returns the options of a run that chooses Services, and for which these flags were given.
func choosing(given ...string) *Options {
	o := &Options{Given: map[string]bool{}}
	for _, flag := range given {
		o.Given[flag] = true
	}
	return o
}
