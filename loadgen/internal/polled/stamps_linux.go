package polled

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file reads the kernel's time stamps of what arrives (SO_TIMESTAMPNS in socket(7)): when the network layer of
// this machine took the packet, on its wall clock. The stamps with 64 bits everywhere came with Linux 5.1.

// stamp has the kernel tell when what is read from a socket arrived.
func stamp(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1) }

// newStamper returns a socket that wants stamps, or -1. The kernel stamps packets while there is one, and begins a
// little after the first is there: so a TCP connection that is the first would have none on its first replies.
func newStamper() int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	if err := stamp(fd); err != nil {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// A stampedMessage is what recvmsg(2) fills in. It is reused, for the pacing thread allocates nothing.
type stampedMessage struct {
	header  unix.Msghdr
	text    unix.Iovec
	control [8]uint64 // aligned for a control message, and longer than that with the stamp
}

// receive reads what has arrived on fd, without waiting: n bytes, 0 at the end of the connection. stamp is 0 if there
// is none.
func (m *stampedMessage) receive(fd int, into []byte) (n int, stamp int64, _ syscall.Errno) {
	m.text.Base = unsafe.SliceData(into)
	m.text.SetLen(len(into))
	m.header.Iov = &m.text
	m.header.SetIovlen(1)
	m.header.Control = (*byte)(unsafe.Pointer(&m.control))
	m.header.SetControllen(int(unsafe.Sizeof(m.control)))
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.header)), 0)
	m.text.Base = nil
	if errno != 0 {
		return 0, 0, errno
	}
	return int(got), m.stamp(), 0
}

// stamp returns the one in the control message that was received, 0 if there is none.
func (m *stampedMessage) stamp() int64 {
	const size = 16 // of a __kernel_timespec
	if int(m.header.Controllen) < unix.CmsgLen(size) {
		return 0
	}
	control := (*unix.Cmsghdr)(unsafe.Pointer(&m.control))
	if control.Level != unix.SOL_SOCKET || control.Type != unix.SO_TIMESTAMPNS_NEW {
		return 0
	}
	at := (*[2]int64)(unsafe.Add(unsafe.Pointer(&m.control), unix.CmsgLen(0)))
	return at[0]*1e9 + at[1]
}
