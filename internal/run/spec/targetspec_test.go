package spec

import (
	"testing"

	"lapse/internal/hint"
	"lapse/timeline"
	"lapse/watcher"
)

// Any argument is refused with a hint, or is a target whose text is the same target.
func FuzzTargetsReadBack(f *testing.F) {
	for _, arg := range []string{"svc/web", "service/web:http/healthz?a=b", "svc/web:0", "svc/web:80?route=clusterip,nodeport:node2/healthz?a=b", "svc/web?route=", "svc/web/a?route=nodeport", "svc/:80", "http://bücher.example/ü", "tcp://[fe80::1%25eth0]:80", "https://a:b@c/", "ftp://x", ""} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		s, err := ParseTarget(arg)
		if err != nil {
			if hint.Of(err) == "" {
				t.Errorf("%q is refused without a hint: %v", arg, err)
			}
			return
		}
		if s.URL != nil && s.URL.User != nil {
			return // its text hides the password
		}
		again, err := ParseTarget(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q is %s, which is %v (%v)", arg, s, again, err)
		}
	})
}

// The routes of a Service come before its path, whose query is its own.
func TestRoutesComeBeforeThePath(t *testing.T) {
	for arg, want := range map[string]Target{
		"svc/web":                {Service: "web", Path: "/"},
		"svc/web?route=nodeport": {Service: "web", Routes: "nodeport", Path: "/"},
		"svc/web:80?route=clusterip, nodeport:a/b?c": {Service: "web", Port: "80", Routes: "clusterip,nodeport:a", Path: "/b?c"},
		"svc/web/b?route=home":                       {Service: "web", Path: "/b?route=home"},
	} {
		if got, err := ParseTarget(arg); err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", arg, got, err, want)
		}
	}
	for arg, advice := range map[string]string{
		"svc/web?route=ingress":       "the routes are externalname, headless, clusterip, nodeport, loadbalancer, externalip, ipv4, ipv6",
		"svc/web?rout=nodeport":       "as in svc/web?route=nodeport",
		"svc/web?":                    "as in svc/web?route=nodeport",
		"svc/web:80/b?route=nodeport": "as in svc/web:80?route=nodeport/b",
	} {
		if got, err := ParseTarget(arg); err == nil || hint.Of(err) != advice {
			t.Errorf("%s is %+v, %v, hint %q; want %q", arg, got, err, hint.Of(err), advice)
		}
	}
}

// Of a Service of type ExternalName the name that it leads to is asked, whole and by that name.
func TestAnExternalNameIsAskedByItsOwnName(t *testing.T) {
	o := &Options{Spec: Spec{Rate: 100, Kinds: []string{"new"}, Scheme: "https", Method: "GET"}}
	s := Target{Service: "db", Port: "443", Path: "/"}
	o.Parsed = []Target{s}
	info := watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "db", ExternalName: "db.example.org."}, Port: 443, Ways: []watcher.Way{{Host: "db.example.org.", Port: 443}}}
	if p := o.ProbeOf(Service{Target: s, Info: info, Measured: true}); p.URL != "https://db.example.org.:443/" || p.Host != "db.example.org" {
		t.Errorf("asked is %s as %s", p.URL, p.Host)
	}
}
