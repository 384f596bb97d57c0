//go:build !linux

package wire

import (
	"net"
	"syscall"
)

// An errorQueue would say which datagrams were answered with ICMP errors. Only Linux does.
type errorQueue struct{}

func (q *errorQueue) open(*net.UDPConn) {}

func (q *errorQueue) drain(func(syscall.Errno, []byte)) (told bool) { return false }
