package main

import (
	"net"
	"syscall"
	"time"
)

// slowAccept returns a listener that accepts no connection before a time, with a queue of backlog until then: the
// kernel drops the SYNs that find the queue full, and clients send them again after 1, 3 and 7 seconds.
func slowAccept(l net.Listener, backlog int, from time.Time) (net.Listener, error) {
	late := &lateListener{l.(*net.TCPListener), from}
	if backlog == 0 {
		return late, nil
	}
	return late, late.queue(backlog)
}

// A lateListener accepts nothing before a time, and as any other from then on.
type lateListener struct {
	*net.TCPListener
	from time.Time
}

func (l *lateListener) Accept() (net.Conn, error) {
	if wait := time.Until(l.from); wait > 0 {
		time.Sleep(wait)
		if err := l.queue(syscall.SOMAXCONN); err != nil {
			return nil, err
		}
	}
	return l.TCPListener.Accept()
}

// queue sets how many connections can wait to be accepted: listen(2) can be called again.
func (l *lateListener) queue(length int) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var listenErr error
	if err := raw.Control(func(fd uintptr) { listenErr = syscall.Listen(int(fd), length) }); err != nil {
		return err
	}
	return listenErr
}
