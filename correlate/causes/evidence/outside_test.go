package evidence

import (
	"testing"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Who leads requests on to Pods: the prober's node, or something behind a URL that nobody watches.
func TestWhoRoutes(t *testing.T) {
	for _, tt := range []struct{ url, service, want string }{
		{"http://web.shop/", "shop/web", "node3"},
		{"http://10.96.0.7:80/", "", "node3"},
		{"http://web/", "", "node3"},
		{"http://web.shop:8080/healthz", "", "node3"},
		{"https://web.shop.svc/", "", "node3"},
		{"https://web.shop.svc.cluster.local/", "", "node3"},
		{"tcp://10.96.0.7:5432", "", "node3"},
		{"http://web.bank/", "", "the load balancer, ingress or DNS of web.bank"},
		{"http://web.shop.example.com/", "", "the load balancer, ingress or DNS of web.shop.example.com"},
		{"http://203.0.113.7:30080/", "", "the load balancer, ingress or DNS of 203.0.113.7"},
		{"not a URL", "", "node3"},
	} {
		target := model.Target{Target: timeline.Target{Name: "new", Kind: timeline.New, URL: tt.url, Service: tt.service}, Node: "node3"}
		v := New(&Input{Run: &model.Timeline{
			Run: model.RunInfo{Services: []timeline.Service{{Namespace: "shop", Name: "web",
				ClusterIP: "10.96.0.7"}}},
			Targets: []model.Target{target},
		}})
		if got := v.Services.Router(&model.Window{Target: "new"}); got != tt.want {
			t.Errorf("%s of Service %q: %q, want %q", tt.url, tt.service, got, tt.want)
		}
	}
}
