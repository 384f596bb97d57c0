package truth

import (
	"maps"
	"slices"
	"testing"
)

// The texts are parts of rules and elements as the kernel gives them: names end in a zero.
func TestRoutesAreReadFromEitherModesRules(t *testing.T) {
	rules := [][]byte{
		[]byte("\x00KUBE-SVC-X\x00comment\x00shop/web:http -> 10.244.1.5:8080\x00\x00KUBE-SEP-A\x00"),
		[]byte("\x00KUBE-SVC-X\x00comment\x00shop/web:http -> 10.244.2.6:8080\x00\x00KUBE-SEP-B\x00"),
		[]byte("\x00KUBE-SEP-B\x00comment\x00shop/web:http\x00"),
		[]byte("\x00KUBE-SVC-Y\x00comment\x00shop/web:metrics -> 10.244.1.5:9090\x00"),
		[]byte("\x00KUBE-SVC-Z\x00comment\x00shop/web2:http -> 10.244.1.7:8080\x00"),
	}
	want := []string{"10.244.1.5:8080", "10.244.2.6:8080"}
	if got := slices.Sorted(maps.Keys(iptablesRoutes(rules, "shop/web", "http"))); !slices.Equal(got, want) {
		t.Errorf("iptables: %q, want %q", got, want)
	}

	rules = [][]byte{
		[]byte("\x00service-ULMVA6XW-shop/web/tcp/http\x00\x00numgen\x00__map7\x00"),
		[]byte("\x00service-ULMVA6XX-shop/web/tcp/https\x00\x00numgen\x00__map8\x00"),
		[]byte("\x00endpoint-5OJB2KTY-shop/web/tcp/http__10.244.1.5/8080\x00\x00dnat\x00"),
	}
	if got := nftablesMaps(rules, "shop/web", "http"); !slices.Equal(got, []string{"__map7"}) {
		t.Errorf("maps %q", got)
	}
	elements := [][]byte{
		[]byte("\x00endpoint-5OJB2KTY-shop/web/tcp/http__10.244.1.5/8080\x00\x00endpoint-5OJB2KTZ-shop/web/tcp/http__10.244.2.6/8080\x00"),
	}
	if got := slices.Sorted(maps.Keys(nftablesRoutes(elements, "shop/web", "http"))); !slices.Equal(got, want) {
		t.Errorf("nftables: %q, want %q", got, want)
	}
}
