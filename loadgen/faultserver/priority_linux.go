package faultserver

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Prioritize has the kernel run this process, and those that it starts from now on, before others, as far as it is
// allowed to (root is). A test calls it whose known outages happen when they are due only if the server is scheduled
// then.
func Prioritize() {
	const niceness = -15
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, niceness) // a thread that it starts inherits that
		}
	}
}
