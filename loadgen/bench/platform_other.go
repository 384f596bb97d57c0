//go:build !linux

package main

import (
	"errors"
	"io"
	"time"
)

var errLinux = errors.New("the benchmarks need Linux: epoll, /proc and CPU affinity")

func serve(serverPlan, interface{ Fd() uintptr }, io.Writer) error { return errLinux }
func pin(int) error                                                { return errLinux }
func monotonic() time.Duration                                     { return 0 }
func kernelVersion() string                                        { return "" }
