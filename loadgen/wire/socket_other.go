//go:build !unix

package wire

import "syscall"

func (s *socket) init(Transport) {}

// Peek cannot look ahead here: connections pass as alive until their reader learns otherwise.
func (s *socket) Peek() { s.err = syscall.EAGAIN }

// ready: nothing can be awaited without reading it.
func (s *socket) ready(Transport) bool { return false }

func (s *socket) Await() error { return syscall.EINVAL }
