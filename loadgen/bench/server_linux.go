package main

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var reply = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n")

// A server answers requests from one thread that waits in epoll, so that it takes little from the tool on the other
// core and notes arrivals without a detour through a scheduler.
type server struct {
	plan    serverPlan
	epoll   int
	listen  int
	stop    int // readable when the server shall end
	conns   map[int]*serverConn
	skew    time.Duration // the wall clock's lead over the monotonic one
	held    []*serverConn // those that wait for a reply until the stall is over
	reused  int           // requests on connections that had served one
	buf     [16 << 10]byte
	control [64]byte
	report  serverReport
}

// A serverConn is a client's connection.
type serverConn struct {
	fd     int
	closed bool
	served int    // requests that came on it
	rest   []byte // of an unfinished one
}

// serve is the server's process: it prints where it listens, serves until in is closed, and prints what it saw.
func serve(plan serverPlan, in interface{ Fd() uintptr }, out io.Writer) error {
	runtime.LockOSThread()
	s := &server{plan: plan, stop: int(in.Fd()), conns: map[int]*serverConn{}, skew: clockSkew()}
	s.report.Arrivals = make([]arrival, 0, 1<<18)
	addr, err := s.open()
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := json.NewEncoder(out).Encode(addr); err != nil {
		return err
	}
	if err := s.loop(); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	if moved := clockSkew() - s.skew; moved.Abs() > 20*time.Microsecond {
		s.report.Stepped = true
	}
	return gob.NewEncoder(out).Encode(s.report)
}

// open listens on the loopback interface, with kernel stamps on what arrives.
func (s *server) open() (addr netip.AddrPort, err error) {
	if s.listen, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
		0); err != nil {
		return addr, err
	}
	if err := unix.Bind(s.listen, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return addr, err
	}
	if err := unix.SetsockoptInt(s.listen, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return addr, err
	}
	if err := unix.Listen(s.listen, 8192); err != nil {
		return addr, err
	}
	name, err := unix.Getsockname(s.listen)
	if err != nil {
		return addr, err
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return addr, err
	}
	port := name.(*unix.SockaddrInet4).Port
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)), errors.Join(s.watch(s.listen),
		s.watch(s.stop))
}

func (s *server) watch(fd int) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (s *server) loop() error {
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(s.epoll, events, s.patience())
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		s.release()
		for _, e := range events[:max(n, 0)] {
			switch fd := int(e.Fd); fd {
			case s.stop:
				return nil
			case s.listen:
				s.accept()
			default:
				if c := s.conns[fd]; c != nil {
					s.read(c)
				}
			}
		}
	}
}

// patience is for how many milliseconds nothing needs doing: -1 for ever.
func (s *server) patience() int {
	if len(s.held) == 0 {
		return -1
	}
	return int(max(0, (s.report.StallTo-monotonic())/time.Millisecond+1))
}

func (s *server) accept() {
	for {
		fd, _, err := unix.Accept4(s.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return // none left; what cannot be accepted the client will tell
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		c := &serverConn{fd: fd}
		s.conns[fd] = c
		if s.watch(fd) != nil {
			s.close(c)
		}
	}
}

func (s *server) close(c *serverConn) {
	c.closed = true
	delete(s.conns, c.fd)
	_ = unix.Close(c.fd)
}

// read takes what has arrived on a connection, and answers the requests in it.
func (s *server) read(c *serverConn) {
	n, stamp, err := s.receive(c.fd)
	now := monotonic()
	switch {
	case errors.Is(err, unix.EAGAIN):
		return
	case err != nil || n == 0:
		s.close(c)
		return
	}
	a := arrival{Kernel: now, Read: now}
	if stamp > 0 {
		a.Kernel = stamp - s.skew
	}
	c.rest = append(c.rest, s.buf[:n]...)
	for {
		end := bytes.Index(c.rest, []byte("\r\n\r\n"))
		if end < 0 {
			return
		}
		c.rest = append(c.rest[:0], c.rest[end+4:]...)
		if !s.request(c, a) {
			return
		}
	}
}

// request does to one request what the plan says, and tells whether the connection goes on.
func (s *server) request(c *serverConn, a arrival) bool {
	s.report.Arrivals = append(s.report.Arrivals, a)
	if len(s.report.Arrivals) == 1 && s.plan.StallFor > 0 {
		s.report.StallFrom = a.Read + s.plan.StallAfter
		s.report.StallTo = s.report.StallFrom + s.plan.StallFor
	}
	c.served++
	if c.served > 1 {
		s.reused++
		if s.plan.cuts(s.reused) {
			s.report.Cuts++
			s.close(c)
			return false
		}
	}
	if a.Read >= s.report.StallFrom && a.Read < s.report.StallTo {
		s.held = append(s.held, c)
		return true
	}
	s.answer(c)
	return true
}

// release answers what the stall held up, once it is over.
func (s *server) release() {
	if len(s.held) == 0 || monotonic() < s.report.StallTo {
		return
	}
	for _, c := range s.held {
		if !c.closed {
			s.answer(c)
		}
	}
	s.held = nil
}

func (s *server) answer(c *serverConn) {
	if _, err := unix.Write(c.fd, reply); err != nil {
		s.close(c)
	}
}

// receive reads from a connection, with the kernel's stamp of when it arrived, on the wall clock; 0 if there is none.
func (s *server) receive(fd int) (n int, stamp time.Duration, err error) {
	iov := unix.Iovec{Base: &s.buf[0], Len: uint64(len(s.buf))}
	msg := unix.Msghdr{Iov: &iov, Iovlen: 1, Control: &s.control[0], Controllen: uint64(len(s.control))}
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 0)
	if errno != 0 {
		return 0, 0, errno
	}
	if msg.Controllen < uint64(unix.CmsgSpace(int(unsafe.Sizeof(unix.Timespec{})))) {
		return int(got), 0, nil
	}
	head := (*unix.Cmsghdr)(unsafe.Pointer(&s.control[0]))
	if head.Level != unix.SOL_SOCKET || head.Type != unix.SCM_TIMESTAMPNS {
		return int(got), 0, nil
	}
	ts := (*unix.Timespec)(unsafe.Pointer(&s.control[unix.CmsgLen(0)]))
	return int(got), time.Duration(ts.Nano()), nil
}

// monotonic reads CLOCK_MONOTONIC, which all processes of a machine share.
func monotonic() time.Duration { return readClock(unix.CLOCK_MONOTONIC) }

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts) // both clocks exist
	return time.Duration(ts.Nano())
}

// clockSkew is by how much the wall clock leads the monotonic one: the closest of several readings.
func clockSkew() (skew time.Duration) {
	closest := time.Hour
	for range 20 {
		before := monotonic()
		wall := readClock(unix.CLOCK_REALTIME)
		after := monotonic()
		if after-before < closest {
			closest, skew = after-before, wall-(before+after)/2
		}
	}
	return skew
}
