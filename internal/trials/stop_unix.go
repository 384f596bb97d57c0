//go:build unix

package trials

import "syscall"

// ownGroup starts a process in a process group of its own.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

// stop and goOn are the signals that stop a process for a while.
const stop, goOn = syscall.SIGSTOP, syscall.SIGCONT
