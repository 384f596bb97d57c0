package spec

import (
	"net/http"
	"strings"
	"testing"
)

// Names beyond ASCII are sent as DNS and HTTP write them; what cannot be written so is refused.
func TestHostsAreWrittenInASCII(t *testing.T) {
	for host, want := range map[string]string{
		"bücher.example": "xn--bcher-kva.example", "bücher.example:8080": "xn--bcher-kva.example:8080", "shop.example": "shop.example",
		"[fe80::1%25eth0]:80": "[fe80::1%25eth0]:80", "Web_1": "Web_1",
	} {
		if got, err := asciiHost(host); err != nil || got != want {
			t.Errorf("%s is written %s, %v", host, got, err)
		}
	}
	if got, err := asciiHost("b\u202ecd.example"); err == nil {
		t.Errorf("accepted as %s", got)
	}
	s, err := ParseTarget("http://bücher.example/ü")
	if err != nil || s.URL.Host != "xn--bcher-kva.example" {
		t.Errorf("%v, %v", s.URL, err)
	}
	o := &Options{Spec: Spec{Host: "bücher.example", Scheme: "http", Method: http.MethodGet}}
	if err := o.CheckRequest(); err != nil || o.Host != "xn--bcher-kva.example" {
		t.Errorf("--host %s, %v", o.Host, err)
	}
}

func TestEscapesAreGos(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", ""}, {"ping", "ping"}, {`PING\r\n`, "PING\r\n"}, {`\x00\xff\\`, "\x00\xff\\"}, {`"quoted" 'é' \u00e9`, `"quoted" 'é' é`}, {"raw\n", "raw\n"},
	}
	for _, test := range tests {
		if got, err := unescape(test.text); err != nil || got != test.want {
			t.Errorf("%q is %q (%v), want %q", test.text, got, err, test.want)
		}
	}
	for _, text := range []string{`\`, `\q`, `ping\x1`} {
		if _, err := unescape(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}

// The keys of a Secret are headers. One that cannot be sent is named, and its value is not shown.
func TestHeadersComeFromSecrets(t *testing.T) {
	var o Options
	o.addSecrets([]string{"LAPSE_HEADER_1_X-Team=blue", "LAPSE_HEADER_0_Authorization=Bearer s3cret\n", "PATH=/"})
	o.Scheme, o.Method = "http", http.MethodGet
	if err := o.CheckRequest(); err != nil {
		t.Fatal(err)
	}
	if o.Header.Get("Authorization") != "Bearer s3cret" || o.Header.Get("X-Team") != "blue" || len(o.Header) != 2 {
		t.Errorf("headers %v", o.Header)
	}
	o.Headers = []string{"Authorization: s3cret\x01"}
	if err := o.CheckRequest(); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "Authorization") {
		t.Errorf("a value that cannot be sent: %v", err)
	}
	if _, err := readSpec(`{"targets":["svc/web"]}`, "s3cret"); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a Secret that cannot be read: %v", err)
	}
}
