package polled

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ShortestSleep is from where on a wait is left to the kernel. Going to sleep and being woken costs 13 to 18 µs of
// CPU in a virtual machine, even for no time at all, and ends 15 µs late (measured; on bare metal it is some 2 µs).
// So what is shorter than this is waited for on the CPU: that costs no more, and is exact.
const ShortestSleep = 10 * time.Microsecond

// Rest is how long a wait is that no request of this process depends on.
const Rest = 2 * time.Millisecond

// A poller lets the pacing thread wait for its next due instant and for what arrives at once (epoll(7)), and keeps
// the connections whose sockets it watches. Go's own poller would wake a second thread for each reply.
type poller struct {
	replies int // an epoll instance, for bytes and for the ends of connections
	ends    int // another one, for the ends of connections alone
	stamper int // a socket that keeps the kernel stamping what arrives; -1 if it cannot
	arrived []unix.EpollEvent
	message stampedMessage

	mu     sync.Mutex
	closed bool
	conns  map[int]Conn // by their socket
}

// newPoller returns a poller, or an error where the kernel has none that waits to the microsecond: epoll_pwait2(2) came
// with Linux 5.11, and a container's seccomp profile may be older than that.
func newPoller() (*poller, error) {
	p := &poller{
		replies: -1,
		ends:    -1,
		stamper: newStamper(),
		arrived: make([]unix.EpollEvent, mostArrived),
		conns:   map[int]Conn{},
	}
	err := p.open()
	if err != nil {
		p.closeAll()
		return nil, err
	}
	return p, nil
}

func (p *poller) open() (err error) {
	if p.replies, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if p.ends, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if _, errno := p.poll(p.replies, 0); errno != 0 {
		return os.NewSyscallError("epoll_pwait2", errno)
	}
	return nil
}

// closeAll closes what was opened.
func (p *poller) closeAll() {
	for _, fd := range []int{p.replies, p.ends, p.stamper} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// poll blocks the calling thread in the kernel for d, or until something has arrived that epoll is told of, or a
// signal comes. It returns how many sockets something has arrived on. As in [sleep], RawSyscall keeps the scheduler's
// processor, but in a rest: the runtime takes it away after 10 ms, at a price.
func (p *poller) poll(epoll int, d time.Duration) (int, syscall.Errno) {
	// __kernel_timespec, of 64 bits everywhere
	timeout := struct{ sec, nsec int64 }{int64(d / time.Second), int64(d % time.Second)}
	call := unix.RawSyscall6
	if d >= Rest {
		call = unix.Syscall6
	}
	n, _, errno := call(unix.SYS_EPOLL_PWAIT2, uintptr(epoll),
		uintptr(unsafe.Pointer(&p.arrived[0])), uintptr(len(p.arrived)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// waitForEnds waits for at most d, or not at all if d is short, or until a connection has ended.
func (p *poller) waitForEnds(d time.Duration) {
	if d >= ShortestSleep {
		_, _ = p.poll(p.ends, d) // the error is EINTR, as in wait
	}
}

// wait waits for at most d, or not at all if d is short, and appends to arrived the conns on whose sockets
// something has arrived, at most mostArrived.
func (p *poller) wait(d time.Duration, arrived []Conn) []Conn {
	if d < ShortestSleep {
		d = 0
	}
	n, _ := p.poll(p.replies, d) // the error is EINTR, for all others show at the first call: nothing has arrived
	if n == 0 {
		return arrived
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range p.arrived[:n] {
		if s := p.conns[int(event.Fd)]; s != nil {
			arrived = append(arrived, s)
		}
	}
	return arrived
}

// watch has the pacing thread told of what arrives on s, whose socket is o.
func (p *poller) watch(o *Socket, s Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	bytes := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(o.fd)}
	end := unix.EpollEvent{Events: unix.EPOLLRDHUP, Fd: int32(o.fd)}
	err := unix.EpollCtl(p.replies, unix.EPOLL_CTL_ADD, o.fd, &bytes)
	if err == nil {
		err = unix.EpollCtl(p.ends, unix.EPOLL_CTL_ADD, o.fd, &end)
	}
	if err != nil {
		p.unwatch(o)
		return os.NewSyscallError("epoll_ctl", err)
	}
	p.conns[o.fd] = s
	return nil
}

// unwatch takes o, which is still open, from both epoll instances.
func (p *poller) unwatch(o *Socket) {
	_ = unix.EpollCtl(p.replies, unix.EPOLL_CTL_DEL, o.fd, nil) // an error says that it is not there
	_ = unix.EpollCtl(p.ends, unix.EPOLL_CTL_DEL, o.fd, nil)
}

// leave ends the watching of o, which is still open.
func (p *poller) leave(o *Socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, watched := p.conns[o.fd]; watched && !p.closed {
		p.unwatch(o)
	}
	delete(p.conns, o.fd)
}

// close watches nothing any more, and returns the conns that were watched.
func (p *poller) close() (left []Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.closeAll()
	for _, s := range p.conns {
		left = append(left, s)
	}
	return left
}

// A Socket is a TCP connection without Go's poller: no read or write waits. Its owner keeps to one call at a
// time.
type Socket struct {
	poller        *poller
	fd            int // -1 once it is closed
	closed        func()
	local, remote net.Addr
}

// polled takes tcp out of Go's poller, and calls closed when the result is closed. After an error tcp is as it was.
func (p *poller) polled(tcp *net.TCPConn, closed func()) (*Socket, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &Socket{poller: p, fd: -1, closed: closed, local: tcp.LocalAddr(), remote: tcp.RemoteAddr()}
	var dup error
	err = raw.Control(func(fd uintptr) { o.fd, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("dup", dup)); err != nil {
		return nil, err
	}
	_ = tcp.Close() // the connection goes on, for o has it as well
	_ = stamp(o.fd) // without stamps, replies wake the pacing thread
	return o, nil
}

// GiveBack gives the connection back to Go's poller. o is closed then, and does not call closed; after an error the
// connection is closed as well.
func (o *Socket) GiveBack() (*net.TCPConn, error) {
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

func (o *Socket) Read(b []byte) (int, error) {
	n, _, err := o.Receive(b)
	return n, err
}

// Receive reads, and returns when the last of it arrived by the kernel's stamp: nanoseconds of the wall clock since
// 1970, 0 if it has none.
func (o *Socket) Receive(b []byte) (n int, stamp int64, err error) {
	n, stamp, errno := o.poller.message.receive(o.fd, b)
	switch {
	case errno != 0:
		return 0, 0, o.failed("read", errno)
	case n == 0 && len(b) > 0:
		return 0, 0, io.EOF
	}
	return n, stamp, nil
}

// Write writes all of b or fails. It never has to wait where the reply to the last request is here, for that says
// that the peer's kernel has all that was sent before: where the kernel takes less than b, it is short of memory.
func (o *Socket) Write(b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(o.fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	switch {
	case errno == syscall.EAGAIN, errno == 0 && int(n) < len(b):
		return int(n), o.failed("write", syscall.ENOBUFS)
	case errno != 0:
		return 0, o.failed("write", errno)
	}
	return int(n), nil
}

func (o *Socket) failed(call string, errno syscall.Errno) error {
	return &net.OpError{Op: call, Net: "tcp", Source: o.local, Addr: o.remote, Err: os.NewSyscallError(call, errno)}
}

func (o *Socket) Close() error {
	if o.fd < 0 {
		return net.ErrClosed
	}
	o.poller.leave(o)
	err := unix.Close(o.fd)
	o.fd = -1
	o.closed()
	return os.NewSyscallError("close", err)
}

func (o *Socket) SetLinger(seconds int) error {
	linger := &unix.Linger{Onoff: 1, Linger: int32(seconds)}
	return os.NewSyscallError("setsockopt", unix.SetsockoptLinger(o.fd, unix.SOL_SOCKET, unix.SO_LINGER, linger))
}

func (o *Socket) LocalAddr() net.Addr  { return o.local }
func (o *Socket) RemoteAddr() net.Addr { return o.remote }

// Deadlines are the pacing thread's: see [Owner].
func (o *Socket) SetDeadline(time.Time) error      { return nil }
func (o *Socket) SetReadDeadline(time.Time) error  { return nil }
func (o *Socket) SetWriteDeadline(time.Time) error { return nil }

func (o *Socket) SyscallConn() (syscall.RawConn, error) { return polledFD{o}, nil }

// polledFD looks at a polledSocket.
type polledFD struct{ *Socket }

func (f polledFD) Control(look func(fd uintptr)) error {
	if f.fd < 0 {
		return net.ErrClosed
	}
	look(uintptr(f.fd))
	return nil
}

func (f polledFD) Read(func(uintptr) bool) error  { return errors.ErrUnsupported }
func (f polledFD) Write(func(uintptr) bool) error { return errors.ErrUnsupported }
