package hey

import (
	"syscall"
	"time"
)

// cpuUsed returns the processor time this process has used so far.
func cpuUsed() time.Duration {
	var created, ended, kernel, user syscall.Filetime
	self, err := syscall.GetCurrentProcess()
	if err == nil {
		err = syscall.GetProcessTimes(self, &created, &ended, &kernel, &user)
	}
	if err != nil {
		return 0
	}
	return length(kernel) + length(user)
}

// length returns the length that a Filetime holds, in units of 100 ns.
func length(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
