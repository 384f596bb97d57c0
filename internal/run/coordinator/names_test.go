package coordinator

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"lapse/loadgen/lookup"
	"lapse/timeline"
	"lapse/watcher"
)

// Each name is looked up at each server, for the records of its address's family, and all of them at no more than so
// many per second.
func TestNamesOfServicesAreLookedUp(t *testing.T) {
	info := func(name, ip string) watcher.Info {
		return watcher.Info{Service: timeline.Service{Namespace: "shop", Name: name, ClusterIP: ip}}
	}
	servers := []lookup.Server{
		{Addr: netip.MustParseAddrPort("10.244.1.2:53"), Pod: timeline.Object{Name: "coredns-1", Node: "node1"}}, {Addr: netip.MustParseAddrPort("[fd00::2]:5353")},
	}
	var got []string
	for _, p := range namesProbes([]watcher.Info{info("web", "10.96.0.7"), info("api", "fd00:10::7")}, servers, "cluster.local") {
		got = append(got, fmt.Sprintf("%s: %s at %v, %v/s", p.Name, p.URL, p.Addr, p.Rate))
		if p.Timeout = 1; p.Check() != nil || p.Kind.Judged() || p.Service != "" {
			t.Errorf("%+v: %v", p.Target, p.Check())
		}
	}
	want := []string{
		"dns coredns-1 of web.shop: dns://10.244.1.2:53/web.shop.svc.cluster.local?type=A at 10.244.1.2:53, 10/s",
		"dns fd00::2 of web.shop: dns://[fd00::2]:5353/web.shop.svc.cluster.local?type=A at [fd00::2]:5353, 10/s",
		"dns coredns-1 of api.shop: dns://10.244.1.2:53/api.shop.svc.cluster.local?type=AAAA at 10.244.1.2:53, 10/s",
		"dns fd00::2 of api.shop: dns://[fd00::2]:5353/api.shop.svc.cluster.local?type=AAAA at [fd00::2]:5353, 10/s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	many := namesProbes([]watcher.Info{info("web", "10.96.0.7")}, slices.Repeat(servers, 20), "cluster.local")
	if rate := many[0].Rate * float64(len(many)); rate > namesRate {
		t.Errorf("%v look-ups per second", rate)
	}
	if one := namesProbes([]watcher.Info{info("web", "10.96.0.7")}, servers[:1], "cluster.local"); one[0].Name != "dns coredns-1 of web" {
		t.Errorf("%q", one[0].Name)
	}
}
