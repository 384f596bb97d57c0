package main

import (
	"net"
	"syscall"
	"time"
)

// slowAccept makes a listening socket of which nobody accepts connections before a time, with so short a queue: the kernel
// drops the SYNs that find it full, and clients send theirs again after 1, 3 and 7 seconds.
func slowAccept(l net.Listener, backlog int, from time.Time) (net.Listener, error) {
	if backlog > 0 {
		raw, err := l.(*net.TCPListener).SyscallConn()
		if err != nil {
			return nil, err
		}
		var listenErr error
		if err := raw.Control(func(fd uintptr) { listenErr = syscall.Listen(int(fd), backlog) }); err != nil {
			return nil, err
		}
		if listenErr != nil {
			return nil, listenErr
		}
	}
	return &lateListener{l, from}, nil
}

// A lateListener accepts nothing before a time.
type lateListener struct {
	net.Listener
	from time.Time
}

func (l *lateListener) Accept() (net.Conn, error) {
	time.Sleep(time.Until(l.from))
	return l.Listener.Accept()
}
