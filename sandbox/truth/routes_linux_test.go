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
	}
	if got := nftablesMaps(rules, "shop/web", "http"); !slices.Equal(got, []string{"__map7"}) {
		t.Errorf("maps %q", got)
	}
	// Elements of a map as the kernel gives them: a list of pairs of key and value.
	row := []byte("\x02\x00\x00\x02\x0f\x00\x01\x00kube-proxy\x00\x00\x0b\x00\x02\x00__map7\x00\x00\x4c\x00\x03\x80" +
		"\x24\x00\x01\x80\x0c\x00\x01\x80\x08\x00\x01\x00\x00\x00\x00\x00\x10\x00\x02\x80\x0c\x00\x01\x00\x0a\xf4\x01\x05\x1f\x90\x00\x00\x04\x00\x09\x00" +
		"\x24\x00\x01\x80\x0c\x00\x01\x80\x08\x00\x01\x00\x01\x00\x00\x00\x10\x00\x02\x80\x0c\x00\x01\x00\x0a\xf4\x02\x06\x1f\x90\x00\x00\x04\x00\x09\x00")
	if got := slices.Sorted(maps.Keys(nftablesRoutes(valuesIn(row)))); !slices.Equal(got, want) {
		t.Errorf("nftables: %q, want %q", got, want)
	}
	for cut := range row {
		valuesIn(row[:cut]) // panics at none
	}
}
