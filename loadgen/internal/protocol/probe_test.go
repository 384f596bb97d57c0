package protocol

import (
	"math"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"lapse/timeline"
)

func TestProbesAreChecked(t *testing.T) {
	good := probe(1, timeline.New, "http://web.shop:8080/health?full=1", 10)
	if _, err := Compile(good); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*Probe){
		"rate 0":               func(p *Probe) { p.Rate = 0 },
		"rate NaN":             func(p *Probe) { p.Rate = math.NaN() },
		"rate +Inf":            func(p *Probe) { p.Rate = math.Inf(1) },
		`scheme "ftp"`:         func(p *Probe) { p.URL = "ftp://web/" },
		"names no host":        func(p *Probe) { p.URL = "http:///x" },
		"carries credentials":  func(p *Probe) { p.URL = "http://me:secret@web/" },
		"we b":                 func(p *Probe) { p.URL = "http://we b" },
		"invalid port":         func(p *Probe) { p.URL = "http://web:99999/" },
		"needs an address":     func(p *Probe) { p.Kind = timeline.Direct },
		"no target kind":       func(p *Probe) { p.Kind = "sideways" },
		"timeout -1s":          func(p *Probe) { p.Timeout = -time.Second },
		"method":               func(p *Probe) { p.Method = "GET /" },
		"not a host name":      func(p *Probe) { p.Host = "a\r\nb" },
		"control characters":   func(p *Probe) { p.Header = http.Header{"X": {"a\r\nb: c"}} },
		"cannot have":          func(p *Probe) { p.Header = http.Header{"X Y": {"a"}} },
		"cannot be overridden": func(p *Probe) { p.Header = http.Header{"Content-Length": {"5"}} },
	}
	for want, spoil := range tests {
		p := good
		spoil(&p)
		if _, err := Compile(p); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRequestIsWrittenOnceAndForAll(t *testing.T) {
	p := probe(1, timeline.New, "http://web.shop.:8080/health?full=1", 10)
	p.Method = http.MethodPost
	p.Header = http.Header{"X-Team": {"blue"}, "Accept": {"text/plain"}}
	plan, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	want := "POST /health?full=1 HTTP/1.1\r\nHost: web.shop:8080\r\nUser-Agent: lapse\r\nContent-Length: 0\r\nConnection: close\r\n" +
		"Accept: text/plain\r\nX-Team: blue\r\n\r\n"
	if string(plan.Message) != want {
		t.Errorf("%q\nwant %q", plan.Message, want)
	}
}

func TestDirectTargetKeepsTheServicesName(t *testing.T) {
	p := probe(1, timeline.Direct, "https://10.0.0.9:443/", 10)
	p.Addr = netip.MustParseAddrPort("10.1.2.3:8443")
	p.Host = "web.shop:443"
	plan, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Addr != p.Addr || plan.TLS.ServerName != "web.shop" ||
		!strings.Contains(string(plan.Message), "\r\nHost: web.shop:443\r\n") {
		t.Errorf("%v %q %q", plan.Addr, plan.TLS.ServerName, plan.Message)
	}
}

func TestReusedRequestsDoNotAskToClose(t *testing.T) {
	plan, err := Compile(probe(1, timeline.Reused, "http://[::1]/", 10))
	if err != nil {
		t.Fatal(err)
	}
	if want := "GET / HTTP/1.1\r\nHost: [::1]\r\nUser-Agent: lapse\r\nAccept: " +
		"*/*\r\n\r\n"; string(plan.Message) != want {
		t.Errorf("%q", plan.Message)
	}
	if plan.Addr != netip.MustParseAddrPort("[::1]:80") {
		t.Errorf("address %v", plan.Addr)
	}
}

// Where an address is on this machine is nobody else's business, and no server's name.
func TestTheZoneOfAnAddressStaysHere(t *testing.T) {
	for url, host := range map[string]string{
		"https://[fe80::1%25eth0]:8443/": "[fe80::1]:8443",
		"https://[fe80::1%25eth0]/":      "[fe80::1]",
	} {
		plan, err := Compile(probe(1, timeline.New, url, 10))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(plan.Message), "\r\nHost: "+host+"\r\n") || plan.TLS.ServerName != "fe80::1" ||
			plan.Addr.Addr().Zone() != "eth0" {
			t.Errorf("%s: %q, server name %q, address %v", url, plan.Message, plan.TLS.ServerName, plan.Addr)
		}
	}
}
