package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"lapse/sandbox/problem"
)

func TestKernelThatLacksSomethingIsNamed(t *testing.T) {
	const ipv6, nat, ipvs = "/proc/net/if_inet6", "nat", "/proc/net/ip_vs"
	for _, c := range []struct {
		mode, families string
		has            []string
		disabled, want string
	}{
		{"iptables", "ipv4", nil, "", ""},
		{"iptables", dualStack, []string{ipv6, nat}, "0", ""},
		{"iptables", dualStack, nil, "", "has no IPv6"},
		{"iptables", dualStack, []string{ipv6, nat}, "1", "disable_ipv6=0"},
		{"iptables", dualStack, []string{ipv6}, "0", "another --proxy-mode"},
		{"nftables", dualStack, []string{ipv6}, "0", "another --proxy-mode"},
		{"ipvs", "ipv4", nil, "", "modprobe ip_vs"},
		{"ipvs", "ipv4", []string{ipvs}, "", "needs ipset"},
		{"ipvs", "ipv4", []string{ipvs, "ipset"}, "", ""},
	} {
		k := kernel{
			exists:   func(path string) bool { return slices.Contains(c.has, path) },
			tool:     func(name string) bool { return slices.Contains(c.has, name) },
			readable: func(string) string { return c.disabled },
			try: func(...string) error {
				if slices.Contains(c.has, nat) {
					return nil
				}
				return errors.New("Operation not supported")
			},
		}
		err := k.can(upOptions{nodes: 3, proxyMode: c.mode, families: c.families})
		if _, fixable := errors.AsType[problem.Error](err); fixable != (c.want != "") || fixable &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
