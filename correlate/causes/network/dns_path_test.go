package network

import (
	"testing"
)

func TestWhatIsLookedUpAndWhere(t *testing.T) {
	for address, want := range map[string][2]string{
		"http://web.shop:80/x":                {"web.shop", ""},
		"http://10.96.0.7/":                   {"the target's name", ""},
		"dns://10.96.0.10/web.shop.?type=SRV": {"web.shop", "10.96.0.10"},
		"dns://kube-dns.kube-system:53/web":   {"web", "kube-dns.kube-system:53"},
		"%":                                   {"the target's name", ""},
	} {
		if got := [2]string{lookedUp(address), asked(address)}; got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
