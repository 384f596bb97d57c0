package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// pinned, in the environment, tells a process that it has been confined.
const pinned = "LAPSE_BENCH_PINNED"

// pin restarts the process confined to one CPU. A running process could only be confined thread by thread.
func pin(cpu int) error {
	if os.Getenv(pinned) != "" {
		return nil
	}
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("confine to CPU %d: %w", cpu, err)
	}
	return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), pinned+"=1"))
}

func kernelVersion() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " +
		unix.ByteSliceToString(name.Machine[:])
}
