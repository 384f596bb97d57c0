//go:build unix

package command

import (
	"os"
	"syscall"
)

// ownGroup starts a command in a process group of its own.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

// signalGroup signals a process and those that it started.
func signalGroup(p *os.Process, sig syscall.Signal) error { return syscall.Kill(-p.Pid, sig) }
