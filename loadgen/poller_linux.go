package loadgen

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A poller lets the pacing thread wait for its next due instant and for replies at once (epoll(7)), and keeps the sessions whose sockets it
// watches. Go's own poller would wake a second thread for each reply.
type poller struct {
	epoll   int
	arrived []unix.EpollEvent

	mu       sync.Mutex
	closed   bool
	sessions map[int]*session // by their socket
}

// mostArrived is how many sockets are read from before the pacing thread looks at its schedule again: a reply takes it some 5 µs.
const mostArrived = 32

// newPoller is a poller, or an error where the kernel has none that waits to the microsecond: epoll_pwait2(2) came with Linux 5.11, and a
// container's seccomp profile may be older than that.
func newPoller() (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	p := &poller{epoll: epoll, arrived: make([]unix.EpollEvent, mostArrived), sessions: map[int]*session{}}
	if _, errno := p.poll(0); errno != 0 {
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("epoll_pwait2: %w", errno)
	}
	return p, nil
}

// poll blocks the calling thread in the kernel for d, or until something has arrived, or a signal comes. It returns how many sockets something
// has arrived on. As in [sleep], RawSyscall keeps the scheduler's processor.
func (p *poller) poll(d time.Duration) (int, syscall.Errno) {
	timeout := struct{ sec, nsec int64 }{int64(d / time.Second), int64(d % time.Second)} // __kernel_timespec, of 64 bits everywhere
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.arrived[0])), uintptr(len(p.arrived)),
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// wait waits for at most d, or not at all if d is short, and appends to arrived the sessions on whose sockets something has arrived.
func (p *poller) wait(d time.Duration, arrived []*session) []*session {
	if d < shortestSleep {
		d = 0
	}
	n, _ := p.poll(d) // the error is EINTR, for all others show at the first call: nothing has arrived
	if n == 0 {
		return arrived
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range p.arrived[:n] {
		if s := p.sessions[int(event.Fd)]; s != nil {
			arrived = append(arrived, s)
		}
	}
	return arrived
}

// watch has the pacing thread told of what arrives on s, whose socket is o.
func (p *poller) watch(o *polledSocket, s *session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(o.fd)}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, o.fd, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	p.sessions[o.fd] = s
	return nil
}

// leave ends the watching of o, which is still open.
func (p *poller) leave(o *polledSocket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, watched := p.sessions[o.fd]; watched && !p.closed {
		_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, o.fd, nil) // it was added
	}
	delete(p.sessions, o.fd)
}

// close watches nothing any more, and returns the sessions that were watched.
func (p *poller) close() (left []*session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	_ = unix.Close(p.epoll)
	for _, s := range p.sessions {
		left = append(left, s)
	}
	return left
}

// A polledSocket is a TCP connection without Go's poller: no read or write waits. Its owner keeps to one call at a time.
type polledSocket struct {
	poller        *poller
	fd            int // -1 once it is closed
	closed        func()
	local, remote net.Addr
}

// polled takes tcp out of Go's poller, and calls closed when the result is closed. After an error tcp is as it was.
func (p *poller) polled(tcp *net.TCPConn, closed func()) (*polledSocket, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &polledSocket{poller: p, fd: -1, closed: closed, local: tcp.LocalAddr(), remote: tcp.RemoteAddr()}
	var dup error
	err = raw.Control(func(fd uintptr) { o.fd, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("dup", dup)); err != nil {
		return nil, err
	}
	_ = tcp.Close() // the connection goes on, for o has it as well
	return o, nil
}

// giveBack gives the connection back to Go's poller. o is closed then, and does not call closed; after an error the connection is closed as well.
func (o *polledSocket) giveBack() (*net.TCPConn, error) {
	o.poller.leave(o)
	file := os.NewFile(uintptr(o.fd), "")
	o.fd = -1
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil // as which it began
}

func (o *polledSocket) Read(b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(o.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	switch {
	case errno != 0:
		return 0, o.failed("read", errno)
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return int(n), nil
}

// Write writes all of b or fails. It never has to wait where the reply to the last request is here, for that says that the peer's kernel has all that was
// sent before: where the kernel takes less than b, it is short of memory.
func (o *polledSocket) Write(b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(o.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	switch {
	case errno == syscall.EAGAIN, errno == 0 && int(n) < len(b):
		return int(n), o.failed("write", syscall.ENOBUFS)
	case errno != 0:
		return 0, o.failed("write", errno)
	}
	return int(n), nil
}

func (o *polledSocket) failed(call string, errno syscall.Errno) error {
	return &net.OpError{Op: call, Net: "tcp", Source: o.local, Addr: o.remote, Err: os.NewSyscallError(call, errno)}
}

func (o *polledSocket) Close() error {
	if o.fd < 0 {
		return net.ErrClosed
	}
	o.poller.leave(o)
	err := unix.Close(o.fd)
	o.fd = -1
	o.closed()
	return os.NewSyscallError("close", err)
}

func (o *polledSocket) SetLinger(seconds int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptLinger(o.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(seconds)}))
}

func (o *polledSocket) LocalAddr() net.Addr  { return o.local }
func (o *polledSocket) RemoteAddr() net.Addr { return o.remote }

// Deadlines are the pacing thread's: see [pool.expire].
func (o *polledSocket) SetDeadline(time.Time) error      { return nil }
func (o *polledSocket) SetReadDeadline(time.Time) error  { return nil }
func (o *polledSocket) SetWriteDeadline(time.Time) error { return nil }

func (o *polledSocket) SyscallConn() (syscall.RawConn, error) { return polledFD{o}, nil }

// polledFD looks at a polledSocket.
type polledFD struct{ *polledSocket }

func (f polledFD) Control(look func(fd uintptr)) error {
	if f.fd < 0 {
		return net.ErrClosed
	}
	look(uintptr(f.fd))
	return nil
}

func (f polledFD) Read(func(uintptr) bool) error  { return errors.ErrUnsupported }
func (f polledFD) Write(func(uintptr) bool) error { return errors.ErrUnsupported }
