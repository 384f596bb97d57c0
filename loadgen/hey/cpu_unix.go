//go:build unix

package hey

import (
	"syscall"
	"time"
)

// cpuUsed is the processor time this process has used so far; false if it is not known.
func cpuUsed() (time.Duration, bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
