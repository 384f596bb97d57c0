//go:build unix

package hey

import (
	"syscall"
	"time"
)

// cpuUsed returns the processor time this process has used so far.
func cpuUsed() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // it fails only for bad arguments
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
