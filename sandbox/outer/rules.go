package outer

import (
	"fmt"
	"net/netip"
	"strings"
)

// Table is the load balancer's own table in netfilter.
const Table = "lapse-lb"

// A Route is where new connections to a frontend go, in turn.
type Route struct {
	*Frontend
	To []Node
}

// Rules returns the script for `nft -f` that replaces the routes. Connections that exist stay where they are.
//
// A packet from the middle of a connection that the table of connections does not know (any more) is answered with a
// reset: so a client learns that its connection was cut when it next sends. Nodes see the load balancer's own address
// as the client's, because the replies must come back this way.
func Rules(routes []Route, six bool) string {
	var b strings.Builder
	b.WriteString(removeTables(six))
	for _, family := range families(six) {
		var resets, turns []string
		for _, r := range routes {
			for _, addr := range r.Addrs {
				if addr.Is6() != family.six {
					continue
				}
				resets = append(resets, fmt.Sprintf("%s daddr %s ct state new tcp flags & (fin | syn | rst | ack) != "+
					"syn reject with tcp reset", family.name, addr))
				for _, p := range r.Ports {
					if to := inTurn(r.To, p.NodePort, family.six); to != "" {
						turns = append(turns, fmt.Sprintf("%s daddr %s %s dport %d dnat to %s",
							family.name, addr, p.Protocol, p.Port, to))
					}
				}
			}
		}
		fmt.Fprintf(&b, "table %s %s {\n", family.name, Table)
		chain(&b, "unknown", "type filter hook prerouting priority -150", resets)
		chain(&b, "arriving", "type nat hook prerouting priority -100", turns)
		chain(&b, "postrouting", "type nat hook postrouting priority 100", []string{"ct status dnat masquerade"})
		b.WriteString("}\n")
	}
	return b.String()
}

// A family is netfilter's name of one, which its rules use as well.
type family struct {
	name string
	six  bool
}

func families(six bool) []family {
	if six {
		return []family{{"ip", false}, {"ip6", true}}
	}
	return []family{{"ip", false}}
}

// removeTables adds the tables and deletes them: they may be there or not.
func removeTables(six bool) string {
	var b strings.Builder
	for _, f := range families(six) {
		fmt.Fprintf(&b, "table %[1]s %[2]s\ndelete table %[1]s %[2]s\n", f.name, Table)
	}
	return b.String()
}

func chain(b *strings.Builder, name, hook string, rules []string) {
	fmt.Fprintf(b, "\tchain %s {\n\t\t%s; policy accept;\n", name, hook)
	for _, rule := range rules {
		fmt.Fprintf(b, "\t\t%s\n", rule)
	}
	b.WriteString("\t}\n")
}

// inTurn returns the nodes' addresses with the port, "" if no node has one of the family.
func inTurn(nodes []Node, port uint16, six bool) string {
	var addrs []netip.Addr
	for _, n := range nodes {
		if addr := n.Addr(six); addr.IsValid() {
			addrs = append(addrs, addr)
		}
	}
	switch len(addrs) {
	case 0:
		return ""
	case 1:
		return netip.AddrPortFrom(addrs[0], port).String()
	}
	var turns []string
	for i, addr := range addrs {
		turns = append(turns, fmt.Sprintf("%d : %s", i, addr))
	}
	return fmt.Sprintf("numgen inc mod %d map { %s } : %d", len(addrs), strings.Join(turns, ", "), port)
}
