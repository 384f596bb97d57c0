package cli

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lapse/correlate/model"
	"lapse/internal/hint"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/access"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/live"
	"lapse/timeline"
	"lapse/watcher"
)

// What cannot be measured is told with the reason and what to do, in words of annotations and not of a command line that
// nobody has typed.
func TestAGuardSaysWhyItDoesNotMeasureAService(t *testing.T) {
	api := httptest.NewServer(fakeAPI(newLivingShop(1)))
	defer api.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(kubetest.Kubeconfig(api.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	kube := access.Kube{Kubeconfig: kubeconfig}
	cluster, err := kube.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A run of a guard uses the guard's client, and knows how that reaches the API servers.
	kube.Client = cluster.Client
	if c, err := kube.Connect(t.Context()); err != nil || c.Client != kube.Client || c.REST() == nil || c.REST().Host != api.URL {
		t.Errorf("with a client: %+v, %v", c, err)
	}
	kube.Client = nil
	many, over := coordinator.NewMany(cluster.Client, "", slog.New(slog.DiscardHandler)), make(chan struct{})
	close(over)
	defer many.Run(over)
	const asked = "see the Service's annotations lapse/port, lapse/path, lapse/scheme and lapse/expect-status"
	for _, test := range []struct {
		service     string
		annotations map[string]string
		says, hint  string
	}{
		{"shop/gone", nil, `there is no Service "gone" in namespace "shop"`, "it has empty, headless, "},
		{"shop/empty", nil, `Service "empty" has no ready endpoint`, "look at its Pods: kubectl -n shop get pods -l app=empty"},
		{"shop/selectless", nil, "has no ready endpoint", "it has no selector, so somebody must make its EndpointSlices"},
		{"shop/nowhere", nil, "only names no-such-host.invalid: name the port to measure", "for a guard with the annotation lapse/port"},
		{"shop/two", nil, `Service "two" has 2 TCP ports`, "it has http (80), metrics (9090): name one, as in svc/two:http, or for a guard with the annotation lapse/port"},
		{"shop/two", map[string]string{"port": "grpc"}, `Service "two" has no TCP port grpc`, "it has http (80), metrics (9090)"},
		{"shop/two", map[string]string{"port": "99999"}, "port 99999 is not between 1 and 65535", asked},
		{"shop/udp", nil, "has no TCP port: it has 53/UDP", "a guard measures none"},
		{"shop/udp", map[string]string{"scheme": "udp"}, "over UDP nothing is seen unless a text is sent and its answer awaited", asked},
		{"shop/web", map[string]string{"scheme": "gopher"}, `scheme "gopher": must be http, `, asked},
		{"shop/web", map[string]string{"expect-status": "many"}, `"many" is not a status code`, asked},
		{"shop/web", map[string]string{"prot": "http"}, "annotation lapse/prot is unknown", "known are guard, port, path, scheme and expect-status"},
		{"shop/web", map[string]string{"guard": "true"}, `annotation lapse/guard is "true"`, `lapse/guard: "on"`},
		{"forbidden/web", nil, "no right to get services", "kubectl auth can-i get services -n forbidden"},
	} {
		namespace, name, _ := strings.Cut(test.service, "/")
		o, err := guardOptions(kube, nil)(watcher.Marked{Namespace: namespace, Name: name, Annotations: test.annotations})
		if err == nil {
			keeper := coordinator.Keeper{
				Begin: func(*timeline.Meta) *live.Recording { return nil }, Ended: func(*model.Timeline) {}, Stands: func(coordinator.Standby, string) {},
			}
			err = many.MeasureAgain(t.Context(), o, keeper, slog.New(slog.DiscardHandler))
		}
		if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(hint.Of(err), test.hint) {
			t.Errorf("%s %v: %v; hint: %s\nwant %s; hint: %s", test.service, test.annotations, err, hint.Of(err), test.says, test.hint)
		}
	}
}
