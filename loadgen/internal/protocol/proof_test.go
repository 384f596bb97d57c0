package protocol

import (
	"testing"

	"lapse/timeline"
)

// Each protocol says what its success proves; without a text to await, bare TCP and TLS are blind.
func TestEachProtocolSaysWhatASuccessProves(t *testing.T) {
	for _, p := range Protocols {
		if p.Proves == nil {
			t.Errorf("%s does not say what a success proves", p.Scheme)
			continue
		}
		proof := p.Proves(Probe{})
		if bare := p.Scheme == "tcp" || p.Scheme == "tls"; proof.Text == "" || proof.Blind != bare {
			t.Errorf("%s: %+v", p.Scheme, proof)
		}
	}
	of := func(url string, change func(*Probe)) Proof {
		p := Probe{Target: timeline.Target{URL: url}}
		change(&p)
		return ProofOf(p)
	}
	statuses, err := ParseStatuses("200,300-302")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		got  Proof
		want Proof
	}{
		{of("tcp://h:1", func(*Probe) {}), Proof{"somebody accepted a connection, whether or not the application answers on it", true}},
		{of("tcp://h:1", func(p *Probe) { p.Echo = "ping" }), Proof{Text: "a reply that begins with the expected text"}},
		{of("tls://h:1", func(p *Probe) { p.Reply = "220 " }), Proof{Text: "a reply that begins with the expected text"}},
		{of("http://h/", func(*Probe) {}), Proof{Text: "a reply with status 200 to 399"}},
		{of("https://h/", func(p *Probe) { p.ExpectStatus, p.ExpectBody = statuses, "up" }), Proof{Text: `a reply with status 200, 300 to 302 whose body has "up"`}},
		{of("nonsense://h/", func(*Probe) {}), Proof{}},
	} {
		if test.got != test.want {
			t.Errorf("%+v, want %+v", test.got, test.want)
		}
	}
}
