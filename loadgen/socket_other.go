//go:build !unix

package loadgen

import (
	"net"
	"syscall"
)

func (s *socket) init(*net.TCPConn) {}

// peek cannot look ahead here: connections pass as alive until their reader learns otherwise.
func (s *socket) peek() { s.err = syscall.EAGAIN }
