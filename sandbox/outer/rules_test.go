package outer

import (
	"net/netip"
	"strings"
	"testing"
)

func TestRulesSendNewConnectionsToTheNodesInTurn(t *testing.T) {
	web := &Frontend{Ports: []Port{{"tcp", 80, 30080}, {"udp", 53, 30053}},
		Addrs: []netip.Addr{netip.MustParseAddr("10.200.0.201"), netip.MustParseAddr("fd00:10:200::c9")}}
	got := Rules([]Route{{web, nodes("a b")}}, true)
	for _, want := range []string{
		"table ip lapse-lb\ndelete table ip lapse-lb\ntable ip6 lapse-lb\ndelete table ip6 lapse-lb\n",
		"\t\tip daddr 10.200.0.201 tcp dport 80 dnat to numgen inc mod 2 map { 0 : 10.200.0.11, 1 : 10.200.0.12 } : " +
			"30080\n",
		"\t\tip daddr 10.200.0.201 udp dport 53 dnat to numgen inc mod 2 map { 0 : 10.200.0.11, 1 : 10.200.0.12 } : " +
			"30053\n",
		"\t\tip6 daddr fd00:10:200::c9 tcp dport 80 dnat to numgen inc mod 2 map { 0 : fd00:10:200::11, 1 : " +
			"fd00:10:200::12 } : 30080\n",
		"\t\tip daddr 10.200.0.201 ct state new tcp flags & (fin | syn | rst | ack) != syn reject with tcp reset\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if one := Rules([]Route{{web, nodes("a")}}, false); !strings.Contains(one,
		"dport 80 dnat to 10.200.0.11:30080\n") || strings.Contains(one, "ip6") {
		t.Errorf("one node, one family:\n%s", one)
	}
	if none := Rules([]Route{{web, nil}}, false); strings.Contains(none, "dnat to") {
		t.Errorf("no node:\n%s", none)
	}
}

func TestFewestIsTheNodeWithTheFewestLivingConnections(t *testing.T) {
	const list = `tcp      6 86399 ESTABLISHED src=10.200.0.3 dst=10.200.0.201 sport=1 dport=80 src=10.200.0.11 dst=10.200.0.2 sport=30080 dport=1 [ASSURED] mark=0 use=1
tcp      6 86399 ESTABLISHED src=10.200.0.3 dst=10.200.0.201 sport=2 dport=80 src=10.200.0.11 dst=10.200.0.2 sport=30080 dport=2 [ASSURED] mark=0 use=1
tcp      6 86399 ESTABLISHED src=10.200.0.3 dst=10.200.0.201 sport=3 dport=80 src=10.200.0.12 dst=10.200.0.2 sport=30080 dport=3 [ASSURED] mark=0 use=1
tcp      6 10 TIME_WAIT src=10.200.0.3 dst=10.200.0.201 sport=4 dport=80 src=10.200.0.12 dst=10.200.0.2 sport=30080 dport=4 [ASSURED] mark=0 use=1
tcp      6 10 TIME_WAIT src=10.200.0.3 dst=10.200.0.201 sport=5 dport=80 src=10.200.0.12 dst=10.200.0.2 sport=30080 dport=5 [ASSURED] mark=0 use=1
`
	if got := fewest(list, nodes("a b"), false); got.Name != "b" {
		t.Errorf("%s of a (2) and b (1, and two that are over)", got.Name)
	}
	if got := fewest(list, nodes("a b c"), false); got.Name != "c" {
		t.Errorf("%s, want c, which has none", got.Name)
	}
}
