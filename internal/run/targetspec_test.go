package run

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lapse/internal/hint"
	"lapse/internal/run/direct"
	"lapse/internal/run/spec"
	"lapse/timeline"
	"lapse/watcher"
)

// Any argument is refused with a hint, or is a target whose text is the same target.
func FuzzTargetsReadBack(f *testing.F) {
	for _, arg := range []string{"svc/web", "service/web:http/healthz?a=b", "svc/web:0", "svc/web:80?route=clusterip,nodeport:node2/healthz?a=b", "svc/web?route=", "svc/web/a?route=nodeport", "svc/:80", "http://bücher.example/ü", "tcp://[fe80::1%25eth0]:80", "https://a:b@c/", "ftp://x", ""} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		s, err := spec.ParseTarget(arg)
		if err != nil {
			if hint.Of(err) == "" {
				t.Errorf("%q is refused without a hint: %v", arg, err)
			}
			return
		}
		if s.URL != nil && s.URL.User != nil {
			return // its text hides the password
		}
		again, err := spec.ParseTarget(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q is %s, which is %v (%v)", arg, s, again, err)
		}
	})
}

// The routes of a Service come before its path, whose query is its own.
func TestRoutesComeBeforeThePath(t *testing.T) {
	for arg, want := range map[string]spec.Target{
		"svc/web":                {Service: "web", Path: "/"},
		"svc/web?route=nodeport": {Service: "web", Routes: "nodeport", Path: "/"},
		"svc/web:80?route=clusterip, nodeport:a/b?c": {Service: "web", Port: "80", Routes: "clusterip,nodeport:a", Path: "/b?c"},
		"svc/web/b?route=home":                       {Service: "web", Path: "/b?route=home"},
	} {
		if got, err := spec.ParseTarget(arg); err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", arg, got, err, want)
		}
	}
	for arg, advice := range map[string]string{
		"svc/web?route=ingress":       "the routes are externalname, headless, clusterip, nodeport, loadbalancer, externalip, ipv4, ipv6",
		"svc/web?rout=nodeport":       "as in svc/web?route=nodeport",
		"svc/web?":                    "as in svc/web?route=nodeport",
		"svc/web:80/b?route=nodeport": "as in svc/web:80?route=nodeport/b",
	} {
		if got, err := spec.ParseTarget(arg); err == nil || hint.Of(err) != advice {
			t.Errorf("%s is %+v, %v, hint %q; want %q", arg, got, err, hint.Of(err), advice)
		}
	}
}

// Several routes of a Service are targets of their own, each told from the others by its name.
func TestEachWayToAServiceIsATarget(t *testing.T) {
	o := &spec.Options{Spec: spec.Spec{Rate: 100, Kinds: []string{"new", "reused"}, Scheme: "http", Method: "GET"}}
	s := spec.Target{Service: "web", Routes: "clusterip,nodeport", Path: "/a"}
	o.Parsed = []spec.Target{s}
	m, _ := idleMeasurement(t, o)
	info := watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "web", ClusterIP: "10.96.0.9"}, Port: 80, PortName: "http", Ways: []watcher.Way{
		{Route: "clusterip", Port: 80}, {Route: "nodeport", At: "node2", Host: "172.30.0.2", Port: 30080, Node: "node2"},
	}}
	m.services = []spec.Service{{Target: s, Info: info, Measured: true}}
	var got []string
	for _, p := range o.ProbesOf(m.services[0]) {
		got = append(got, fmt.Sprintf("%s: %s %s", p.Name, p.URL, p.RouteNode))
	}
	want := []string{
		"web clusterip new: http://10.96.0.9:80/a ", "web clusterip reused: http://10.96.0.9:80/a ",
		"web nodeport node2 new: http://172.30.0.2:30080/a node2", "web nodeport node2 reused: http://172.30.0.2:30080/a node2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.Targets = map[timeline.TargetID]timeline.Target{}
	byHand := &direct.Endpoint{Key: direct.Key{Addr: netip.MustParseAddrPort("192.0.2.9:8080"), Port: "http"}, Pod: timeline.Object{Kind: "EndpointSlice", Namespace: "shop", Name: "web-1"}}
	if p, ok := m.directProbe("shop/web", byHand, 1); !ok || p.Pod != "" || p.Name != "web direct 192.0.2.9:8080" {
		t.Errorf("an endpoint that was made by hand is %q of Pod %q", p.Name, p.Pod)
	}
	p, ok := m.directProbe("shop/web", &direct.Endpoint{Key: direct.Key{Addr: netip.MustParseAddrPort("10.0.0.1:8080"), Port: "http"}}, 1)
	if !ok || p.Route != "" || p.RouteNode != "" || p.Turns || p.URL != "http://10.0.0.1:8080/a" {
		t.Errorf("an endpoint itself is asked as %+v", p)
	}
	for id, want := range []string{"web direct web-0", "web direct web-0 10.0.0.5:8080", "web direct web-0 10.0.0.5:8080 (2)", "web direct web-0 10.0.0.5:8080 (3)"} {
		back := &direct.Endpoint{Key: direct.Key{Addr: netip.MustParseAddrPort("10.0.0.5:8080"), Port: "http"}, Pod: timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: fmt.Sprint(id)}}
		p, ok := m.directProbe("shop/web", back, 1)
		if !ok || p.Name != want {
			t.Errorf("the Pod that was there %d times before is %q, want %q", id, p.Name, want)
		}
		m.Targets[timeline.TargetID(id+1)] = p.Target
	}
}

// Of a Service of type ExternalName the name that it leads to is asked, whole and by that name.
func TestAnExternalNameIsAskedByItsOwnName(t *testing.T) {
	o := &spec.Options{Spec: spec.Spec{Rate: 100, Kinds: []string{"new"}, Scheme: "https", Method: "GET"}}
	s := spec.Target{Service: "db", Port: "443", Path: "/"}
	o.Parsed = []spec.Target{s}
	m, _ := idleMeasurement(t, o)
	info := watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "db", ExternalName: "db.example.org."}, Port: 443, Ways: []watcher.Way{{Host: "db.example.org.", Port: 443}}}
	m.services = []spec.Service{{Target: s, Info: info, Measured: true}}
	if p := o.ProbeOf(m.services[0]); p.URL != "https://db.example.org.:443/" || p.Host != "db.example.org" {
		t.Errorf("asked is %s as %s", p.URL, p.Host)
	}
}
