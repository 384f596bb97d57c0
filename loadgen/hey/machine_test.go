package hey

import "testing"

func TestWhetherATargetIsOnThisMachine(t *testing.T) {
	for host, want := range map[string]bool{"::1": true, "127.0.0.1": true, "localhost": true, "192.0.2.1": false, "web.shop": false} {
		if got := IsThisMachine(host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}
