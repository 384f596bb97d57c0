package hey

import (
	"net"
	"net/netip"
)

// IsThisMachine reports whether a host is this machine, by its name or address alone.
func IsThisMachine(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || ownAddress(ip)
	}
	return host == "localhost"
}

func ownAddress(ip netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().WithZone("") == ip.Unmap() {
			return true
		}
	}
	return false
}
