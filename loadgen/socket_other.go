//go:build !unix

package loadgen

import "syscall"

func (s *socket) init(transport) {}

// peek cannot look ahead here: connections pass as alive until their reader learns otherwise.
func (s *socket) peek() { s.err = syscall.EAGAIN }
