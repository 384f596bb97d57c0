package outer

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

func read[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestNodesAreRegisteredReadyOrNotUnlessTheLabelSaysNo(t *testing.T) {
	got := registered(read[nodeList](t, `{"items": [
		{"metadata": {"name": "b"}, "status": {"addresses": [{"type": "Hostname", "address": "b"}, {"type": "InternalIP", "address": "10.0.0.2"}, {"type": "InternalIP", "address": "fd00::2"}]}},
		{"metadata": {"name": "a"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "conditions": [{"type": "Ready", "status": "False"}]}},
		{"metadata": {"name": "c", "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}},
		{"metadata": {"name": "d", "deletionTimestamp": "2026-01-01T00:00:00Z"}}]}`))
	if names(got) != "a b" || got[1].Addr(true).String() != "fd00::2" || got[0].Addr(true).IsValid() {
		t.Errorf("%+v", got)
	}
}

func TestFrontendsAreTheServicesOfTypeLoadBalancer(t *testing.T) {
	const ports = `"ports": [{"protocol": "TCP", "port": 80, "nodePort": 30080}, {"protocol": "UDP", "port": 53, "nodePort": 30053}, {"protocol": "SCTP", "port": 1, "nodePort": 2}]`
	for spec, want := range map[string]string{
		`"type": "ClusterIP", ` + ports:                                      "none",
		`"type": "LoadBalancer", "loadBalancerClass": "other", ` + ports:     "none",
		`"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}]`: "none",
		// allocateLoadBalancerNodePorts: false
		`"type": "LoadBalancer", ` + ports: "http:10256/healthz",
		`"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30099, ` +
			ports: "http:30099/healthz",
	} {
		f := frontend(read[service](t, `{"metadata": {"name": "web", "namespace": "shop"}, "spec": {`+spec+`}}`), "")
		got := "none"
		if f != nil {
			got = f.Check.String()
			if len(f.Ports) != 2 || f.Ports[1] != (Port{"udp", 53, 30053}) || f.key() != "shop/web" {
				t.Errorf("%s: %+v", spec, f)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
	f := frontend(read[service](t, `{"spec": {"type": "LoadBalancer", `+ports+`}}`), "tcp:22")
	if f.Check.String() != "tcp:22" {
		t.Errorf("the check that was asked for is %v", f.Check)
	}
}

func TestAddressesStayAndAreGivenAgainWhenFree(t *testing.T) {
	a := Addresses{First: []netip.Addr{netip.MustParseAddr("10.0.0.8"), netip.MustParseAddr("fd00::8")}, Count: 2}
	front := func(name string) *Frontend { return &Frontend{Namespace: "n", Name: name} }
	families := map[string][]string{"n/a": {"IPv4"}, "n/b": {"IPv6", "IPv4"}, "n/c": {"IPv4"}}
	taken := map[string]int{}
	x, y, z := front("a"), front("b"), front("c")
	if err := a.assign([]*Frontend{x, y}, families, taken); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(texts(x.Addrs), texts(y.Addrs)...), " "); got != "10.0.0.8 fd00::9 10.0.0.9" {
		t.Errorf("%s", got)
	}
	if err := a.assign([]*Frontend{x, y, z}, families, taken); err == nil {
		t.Error("a third one got an address of two")
	}
	if err := a.assign([]*Frontend{y, z}, families, taken); err != nil || texts(z.Addrs)[0] != "10.0.0.8" ||
		texts(y.Addrs)[0] != "fd00::9" {
		t.Errorf("%v, %v, %v", err, z.Addrs, y.Addrs)
	}
	for text, want := range map[string]int{"10.0.0.9": 1, "fd00::8": 0, "10.0.0.10": -1, "": -1} {
		if got := a.number(text); got != want {
			t.Errorf("%q is number %d, want %d", text, got, want)
		}
	}
}
