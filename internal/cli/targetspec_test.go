package cli

import (
	"testing"

	"lapse/internal/run/spec"
)

// Names beyond ASCII are sent as DNS and HTTP write them; what cannot be written so is refused.
func TestHostsAreWrittenInASCII(t *testing.T) {
	for host, want := range map[string]string{
		"bücher.example": "xn--bcher-kva.example", "bücher.example:8080": "xn--bcher-kva.example:8080", "shop.example": "shop.example",
		"[fe80::1%25eth0]:80": "[fe80::1%25eth0]:80", "Web_1": "Web_1",
	} {
		if got, err := spec.AsciiHost(host); err != nil || got != want {
			t.Errorf("%s is written %s, %v", host, got, err)
		}
	}
	if got, err := spec.AsciiHost("b\u202ecd.example"); err == nil {
		t.Errorf("accepted as %s", got)
	}
	s, err := spec.ParseTarget("http://bücher.example/ü")
	if err != nil || s.URL.Host != "xn--bcher-kva.example" {
		t.Errorf("%v, %v", s.URL, err)
	}
	o := parsed(t, "--host=bücher.example", "--duration=1s")
	if err := o.Check([]string{"http://127.0.0.1/"}, nil); err != nil || o.Host != "xn--bcher-kva.example" {
		t.Errorf("--host %s, %v", o.Host, err)
	}
}
