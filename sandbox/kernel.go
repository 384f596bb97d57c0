package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"lapse/sandbox/command"
	"lapse/sandbox/problem"
)

// A kernel is asked whether it can do what `up` wants, before anything is made.
type kernel struct {
	exists   func(path string) bool
	tool     func(name string) bool
	readable func(path string) string
	try      func(argv ...string) error // a command, in a network namespace of its own
}

var theKernel = kernel{
	exists: func(path string) bool { _, err := os.Stat(path); return err == nil },
	tool:   func(name string) bool { _, err := exec.LookPath(name); return err == nil },
	readable: func(path string) string {
		data, _ := os.ReadFile(path)
		return strings.TrimSpace(string(data))
	},
	try: tryInFreshNetns,
}

// can returns an error that says what the kernel lacks for these options, and what to do about it.
func (k kernel) can(o upOptions) error {
	if o.proxyMode == "ipvs" {
		// The module makes the file in every network namespace. It is the host's: we load none.
		if !k.exists("/proc/net/ip_vs") {
			return problem.Errorf("--proxy-mode ipvs: this kernel has no IPVS (there is no /proc/net/ip_vs): " +
				"load it with `modprobe ip_vs ip_vs_rr`, or choose iptables or nftables")
		}
		if !k.tool("ipset") {
			return problem.Errorf("--proxy-mode ipvs: kube-proxy needs ipset: `apt-get install ipset`, " +
				"or choose iptables or nftables")
		}
	}
	if o.families != dualStack {
		return nil
	}
	switch {
	case !k.exists("/proc/net/if_inet6"):
		return problem.Errorf("--families %s: this kernel has no IPv6 (there is no /proc/net/if_inet6): "+
			"boot it without ipv6.disable=1, or choose ipv4", dualStack)
	case k.readable("/proc/sys/net/ipv6/conf/default/disable_ipv6") == "1":
		return problem.Errorf("--families %s: IPv6 is off for new interfaces: `sysctl "+
			"net.ipv6.conf.default.disable_ipv6=0`, or choose ipv4", dualStack)
	}
	nat := []string{"ip6tables", "-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE"}
	if o.proxyMode == "nftables" {
		nat = []string{"nft", "add table ip6 t; add chain ip6 t c { type nat hook postrouting priority 100; }; add " +
			"rule ip6 t c masquerade"}
	}
	if err := k.try(nat...); err != nil {
		return problem.Errorf("--families %s: this kernel does not translate addresses of IPv6, "+
			"which kube-proxy needs (%v): choose ipv4, or another --proxy-mode", dualStack, err)
	}
	return nil
}

// tryInFreshNetns runs a command in a network namespace that ends with it.
func tryInFreshNetns(argv ...string) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and the namespace with the thread
		if err := unshareNet(); err != nil {
			done <- err
			return
		}
		done <- command.Run(context.Background(), "", argv[0], argv[1:]...)
	}()
	return <-done
}
