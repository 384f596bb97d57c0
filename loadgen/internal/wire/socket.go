package wire

import (
	"net"
	"syscall"
)

// A socket looks at what has arrived on a connection, without taking it and without waiting.
type socket struct {
	raw    syscall.RawConn
	look   func(fd uintptr)
	ahead  [5]byte // what has arrived: enough for the head of a TLS record
	length int     // of ahead; 0 if the peer closed
	err    error   // EAGAIN if nothing has arrived
}

// A Transport is a connection as the kernel has it: a *net.TCPConn, a *net.UDPConn or a polled socket.
type Transport interface {
	net.Conn
	syscall.Conn
}
