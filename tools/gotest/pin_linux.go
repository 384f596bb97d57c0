package main

import "golang.org/x/sys/unix"

// pin keeps this thread on a processor. Where that is not allowed the thread runs on any.
func pin(cpu int) {
	var set unix.CPUSet
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set)
}
