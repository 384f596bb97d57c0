//go:build unix

package wire

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

func (s *socket) init(below Transport) {
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

// ready prepares for await, and reports whether there can be one.
func (s *socket) ready(below Transport) bool {
	if s.raw == nil {
		s.init(below)
	}
	return s.raw != nil
}

// await waits until something has arrived, without taking it, or the connection has ended: then it returns as a read
// does.
func (s *socket) await() error {
	err := s.raw.Read(func(fd uintptr) bool {
		s.look(fd)
		return !errors.Is(s.err, unix.EAGAIN)
	})
	switch {
	case err != nil:
		return err
	case s.err != nil:
		return s.err
	case s.length == 0:
		return io.EOF
	}
	return nil
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
