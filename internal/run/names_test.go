package run

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"lapse/internal/run/spec"
	"lapse/loadgen/lookup"
	"lapse/timeline"
	"lapse/watcher"
)

// A run on a few Services that are named looks for the DNS servers, and no other.
func TestNamesAreLookedUpWhereServicesAreAskedByName(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options func(o *spec.Options)
		want    bool
	}{
		{"a Service", func(*spec.Options) {}, true},
		{"measured from here", func(o *spec.Options) { o.Here = true }, false},
		{"by its address", func(o *spec.Options) { o.ByClusterIP = true }, false},
		{"chosen ones", func(o *spec.Options) { o.OnNode = "node1" }, false},
		{"many", func(o *spec.Options) { o.Parsed = slices.Repeat(o.Parsed, spec.MostNames+1) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &spec.Options{Parsed: []spec.Target{{Service: "web", Path: "/"}}}
			tt.options(o)
			if got := o.LooksNamesUp(); got != tt.want {
				t.Errorf("looked up: %v", got)
			}
		})
	}
}

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

func TestNameServersOfAResolvConf(t *testing.T) {
	conf := "search shop.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\n# nameserver 1.1.1.1\nnameserver\nnameserver x\nnameserver fd00::a\noptions ndots:5\n"
	var got []string
	for _, s := range spec.NameServers(conf) {
		got = append(got, s.Addr.String())
	}
	if want := []string{"10.96.0.10:53", "[fd00::a]:53"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
