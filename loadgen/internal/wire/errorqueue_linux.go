package wire

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
)

// An errorQueue reads which datagrams of a UDP socket were answered with ICMP errors (IP_RECVERR in ip(7)).
type errorQueue struct {
	raw syscall.RawConn // nil where the kernel does not say
}

// open asks the kernel to keep the errors of a socket.
func (q *errorQueue) open(c *net.UDPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	level, option := syscall.IPPROTO_IP, syscall.IP_RECVERR
	if peer, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && peer.Addr().Unmap().Is6() {
		level, option = syscall.IPPROTO_IPV6, syscall.IPV6_RECVERR
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), level, option, 1) })
	if err == nil && failed == nil {
		q.raw = raw
	}
}

// drain calls each with every error that was kept, and the beginning of the datagram that it is about. It reports
// whether the kernel says.
func (q *errorQueue) drain(each func(errno syscall.Errno, quoted []byte)) (told bool) {
	if q.raw == nil {
		return false
	}
	var quoted [576]byte // more than an ICMP error quotes
	var control [512]byte
	err := q.raw.Control(func(fd uintptr) {
		for {
			n, controls, _, _, err := syscall.Recvmsg(int(fd), quoted[:], control[:],
				syscall.MSG_ERRQUEUE|syscall.MSG_DONTWAIT)
			if err != nil {
				return
			}
			if errno, ok := extendedError(control[:controls]); ok {
				each(errno, quoted[:n])
			}
		}
	})
	return err == nil
}

// extendedError returns the error in a message of the error queue: struct sock_extended_err begins with it.
func extendedError(control []byte) (syscall.Errno, bool) {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return 0, false
	}
	for _, m := range messages {
		ip := m.Header.Level == syscall.IPPROTO_IP && m.Header.Type == syscall.IP_RECVERR
		ip6 := m.Header.Level == syscall.IPPROTO_IPV6 && m.Header.Type == syscall.IPV6_RECVERR
		if (ip || ip6) && len(m.Data) >= 4 {
			return syscall.Errno(binary.NativeEndian.Uint32(m.Data)), true
		}
	}
	return 0, false
}
