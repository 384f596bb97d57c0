package loadgen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// reserveFiles makes room in the process's table of open files for n of them, as far as its limit allows.
//
// The kernel grows the table when a number beyond its end is given out, to four times its size, and lets a process of
// several threads wait for an RCU grace period meanwhile: 10 to 20 ms (expand_fdtable in fs/file.c). As package net
// makes sockets with RawSyscall, the scheduler cannot take the waiting thread's processor away, and a garbage
// collection that wants to stop the world waits as well, with all of us. It would happen when connections pile up,
// because the service stalls: the worst of times. The table never shrinks, so an open file at a high number makes
// room for good.
func reserveFiles(n int) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur < 1 {
		return
	}
	file, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return // there is no room for a single one; the targets will tell
	}
	defer unix.Close(file)
	if high, err := unix.FcntlInt(uintptr(file), unix.F_DUPFD_CLOEXEC, int(min(uint64(n), limit.Cur)-1)); err == nil {
		unix.Close(high)
	}
}
