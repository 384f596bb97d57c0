//go:build !unix

package wire

import "syscall"

func (s *socket) init(Transport) {}

// peek cannot look ahead here: connections pass as alive until their reader learns otherwise.
func (s *socket) peek() { s.err = syscall.EAGAIN }

// ready: nothing can be awaited without reading it.
func (s *socket) ready(Transport) bool { return false }

func (s *socket) await() error { return syscall.EINVAL }
