//go:build !linux

package outer

import "syscall"

func endsWithParent() *syscall.SysProcAttr { return nil }
