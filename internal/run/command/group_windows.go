package command

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// ownGroup starts a command in a process group of its own.
var ownGroup = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}

// signalGroup ends a process, or asks it and those that it started to end. Windows has only Ctrl-Break for a group.
func signalGroup(p *os.Process, sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		return p.Kill()
	}
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid))
}
