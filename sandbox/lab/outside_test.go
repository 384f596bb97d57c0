package main

import (
	"strings"
	"testing"
)

const goodOutside = `From outside.

Row 9.
-- manifest.yaml --
kind: Deployment
-- outside --
lb --interval 1s --unhealthy 3
ingress
families ipv4,ipv6
-- steps --
after 1s
-- lapse --
http://$lb/ http://[$ingress6]/
--watch svc/web
-- expect --
no failure
`

func TestWhatStandsOutsideIsRead(t *testing.T) {
	s, err := Parse("x/outside.txtar", []byte(goodOutside))
	if err != nil {
		t.Fatal(err)
	}
	if !s.Outside.equal(Outside{Balancer: []string{"--interval", "1s", "--unhealthy", "3"}, Ingress: []string{},
		Families: "ipv4,ipv6"}) || s.Outside.Ingress == nil {
		t.Errorf("%+v", s.Outside)
	}
	if strings.Join(s.Targets, " ") != "http://$lb/ http://[$ingress6]/" ||
		strings.Join(s.Flags, " ") != "--watch svc/web" || !s.fromOutside() {
		t.Errorf("targets %v, flags %v, from outside %v", s.Targets, s.Flags, s.fromOutside())
	}
	vars := map[string]string{}
	(&play{vars: vars}).name("lb", []string{"10.0.0.1", "fd00::1"})
	if got := expand(s.Targets[:1], vars)[0]; got != "http://10.0.0.1/" || vars["lb6"] != "fd00::1" {
		t.Errorf("%s of %v", got, vars)
	}
}

func TestLapseRunsOutsideWhereItsTargetIsNoService(t *testing.T) {
	for lapse, want := range map[string]bool{
		"--rate 50":                 false,
		"svc/web:grpc":              false,
		"http://10.0.0.1/":          true,
		"--from outside":            true,
		"--from all":                false,
		"svc/web?route=nodeport -A": false,
	} {
		text := strings.Replace(good, "--avoid-node node2\n--rate 50", lapse, 1)
		if s, err := Parse("x/a.txtar", []byte(text)); err != nil || s.fromOutside() != want {
			t.Errorf("%q: from outside %v, %v", lapse, s.fromOutside(), err)
		}
	}
}

func TestWrongSectionsOutsideAreRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"ingress\n", "proxy\n", "want `lb [FLAG…]`, `ingress [FLAG…]` or `families ipv4,ipv6`"},
		{"families ipv4,ipv6", "families ipv6", "outside.txtar:9"},
		{"lb --interval 1s --unhealthy 3\n", "", "$lb is not set"},
		{"after 1s", "let a = pod of web on $prober", "does not measure from one node"},
	} {
		text := strings.Replace(goodOutside, c.old, c.new, 1)
		if _, err := Parse("x/outside.txtar", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.new, err, c.want)
		}
	}
}

func TestACutIsOfTheFamiliesOfItsPeers(t *testing.T) {
	both := cutRules("lapse-cut-lab", []string{"10.244.2.0/24", "fd00:10:244:2::/64"}, "6443")
	for _, want := range []string{
		"table ip lapse-cut-lab {", "ip daddr { 10.244.2.0/24 } tcp dport 6443 drop",
		"ip saddr { 10.244.2.0/24 } tcp sport 6443 drop",
		"table ip6 lapse-cut-lab {", "ip6 daddr { fd00:10:244:2::/64 } tcp dport 6443 drop",
	} {
		if !strings.Contains(both, want) {
			t.Errorf("lacks %q:\n%s", want, both)
		}
	}
	if four := cutRules("lapse-cut-lab", []string{"10.0.0.1"}, ""); strings.Contains(four, "ip6") ||
		!strings.Contains(four, "ip daddr { 10.0.0.1 } drop") {
		t.Errorf("of IPv4 alone:\n%s", four)
	}
}
