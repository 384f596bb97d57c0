//go:build !unix

package trials

import "syscall"

var ownGroup *syscall.SysProcAttr

// Nothing is measured here: spec.CheckMeasures refuses it. These signals only end a process.
const stop, goOn = syscall.SIGKILL, syscall.SIGKILL
