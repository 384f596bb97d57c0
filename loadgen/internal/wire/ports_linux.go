package wire

import (
	"fmt"
	"os"
)

// localPorts returns the range the kernel gives local ports from, or zeros if it does not say.
func localPorts() (low, high uint16) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0
	}
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil || low == 0 || high < low {
		return 0, 0
	}
	return low, high
}
