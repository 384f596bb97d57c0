package spec

import (
	"net/netip"
	"slices"
	"testing"

	"lapse/loadgen/lookup"
	"lapse/timeline"
	"lapse/watcher"
)

// A run on a few Services that are named looks for the DNS servers, and no other.
func TestNamesAreLookedUpWhereServicesAreAskedByName(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options func(o *Options)
		want    bool
	}{
		{"a Service", func(*Options) {}, true},
		{"measured from here", func(o *Options) { o.Here = true }, false},
		{"by its address", func(o *Options) { o.ByClusterIP = true }, false},
		{"chosen ones", func(o *Options) { o.OnNode = "node1" }, false},
		{"many", func(o *Options) { o.Parsed = slices.Repeat(o.Parsed, mostNames+1) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &Options{Parsed: []Target{{Service: "web", Path: "/"}}}
			tt.options(o)
			if got := o.LooksNamesUp(); got != tt.want {
				t.Errorf("looked up: %v", got)
			}
		})
	}
}

func TestNameServersOfAResolvConf(t *testing.T) {
	conf := "search shop.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\n# nameserver 1.1.1.1\nnameserver\nnameserver x\nnameserver fd00::a\noptions ndots:5\n"
	var got []string
	for _, s := range NameServers(conf) {
		got = append(got, s.Addr.String())
	}
	if want := []string{"10.96.0.10:53", "[fd00::a]:53"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Only a headless Service has a name whose answers are its routes.
func TestDNSServersAreAskedForHeadlessServices(t *testing.T) {
	if IsHeadless(watcher.Info{Ways: []watcher.Way{{Port: 80}, {Route: "nodeport", Port: 30080}}}) {
		t.Error("a Service with a cluster IP counts as headless")
	}
	if !IsHeadless(watcher.Info{Ways: []watcher.Way{{Port: 8080, Turns: true}}}) {
		t.Error("a Service whose clients take each of its addresses does not count as headless")
	}
}

// What the workstation found reaches the Job in the Spec.
func TestDNSServersReachTheJob(t *testing.T) {
	given := DNS{Servers: []lookup.Server{{Addr: netip.MustParseAddrPort("[fd00::2]:53"), Pod: timeline.Object{Kind: "Pod", Name: "coredns-1", Node: "node1"}}}, NotAsked: "not 10.0.0.9"}
	got, err := readSpec(string(MustMarshal(Spec{DNS: &given})), "")
	if err != nil || got.DNS == nil || len(got.DNS.Servers) != 1 || got.DNS.Servers[0] != given.Servers[0] || got.DNS.NotAsked != given.NotAsked {
		t.Errorf("%+v, %v", got.DNS, err)
	}
}
