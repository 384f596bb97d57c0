//go:build unix

package loadgen

import (
	"net"

	"golang.org/x/sys/unix"
)

func (s *socket) init(below transport) {
	raw, err := below.SyscallConn()
	if err != nil { // only of a closed connection, which the next read will report
		return
	}
	s.raw = raw
	polled := make([]unix.PollFd, 1)
	s.look = func(fd uintptr) {
		// Mostly nothing has arrived, and Recvfrom allocates memory to say so.
		polled[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		if n, err := unix.Poll(polled, 0); n == 0 && err == nil {
			s.length, s.err = 0, unix.EAGAIN
			return
		}
		s.length, _, s.err = unix.Recvfrom(int(fd), s.ahead[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}
}

// peek asks the kernel what has arrived. Control does not wait for a Read in progress, as Read does.
func (s *socket) peek() {
	if s.raw == nil {
		s.err = net.ErrClosed
		return
	}
	if err := s.raw.Control(s.look); err != nil {
		s.err = err
	}
}
