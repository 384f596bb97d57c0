package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
)

// LongestDatagram is how many bytes of a datagram are read; a longer one is cut. With its length it fills a read
// buffer.
const LongestDatagram = ReadBuffer - 2

// ErrStray is the error of a datagram that nobody asked for, on a socket that cannot tell replies apart.
var ErrStray = errors.New("a datagram came without a request")

// A DatagramSocket is a connected UDP socket on which one request is open at most. It hands on what belongs to that
// request. A reply or an ICMP error to an earlier datagram does not: where requests are identified, it is dropped. A
// read gives one datagram, with its length before it: see [ReadDatagram].
//
//	sent a, no reply in time, sent b, received reply to a, received reply to b   →   Read: the reply to b
type DatagramSocket struct {
	*net.UDPConn
	Matching
	errors errorQueue

	mu     sync.Mutex
	sent   []byte // the datagram of the open request; empty while none is open
	former []byte // the one before
	owes   bool   // a former request got no reply, and it may still come
}

// A Matching says which datagrams belong together. The zero value matches all of them.
type Matching struct {
	// how many bytes at the beginning of a request tell it from all others; 0: none do
	IDEnd   int
	Answers func(sent, datagram []byte) bool // whether a datagram is the reply to one that was sent
}

// NewDatagramSocket takes over a connection that was just made.
func NewDatagramSocket(c *Conn, m Matching) *DatagramSocket {
	s := &DatagramSocket{UDPConn: c.Below.(*net.UDPConn), Matching: m}
	s.errors.open(s.UDPConn)
	c.Conn = s
	c.Br.Reset(c)
	return s
}

// identified reports whether the replies to different requests can be told apart.
func (m Matching) identified() bool { return m.IDEnd > 0 }

// pendingErrors is how many errors of former datagrams may be in the way of one request.
const pendingErrors = 4

// Write sends a request. The kernel answers a send with the pending error of an earlier datagram, if there is one,
// and sends nothing then (sock_alloc_send_pskb in Linux): so the datagram is written again after such an error, and
// leaves once.
func (s *DatagramSocket) Write(p []byte) (n int, err error) {
	s.opened(p)
	for range pendingErrors {
		if n, err = s.UDPConn.Write(p); !isICMP(err) {
			break
		}
		s.errors.drain(func(syscall.Errno, []byte) {})
	}
	if err != nil {
		s.over() // it was not sent: nothing will come
	}
	return n, err
}

// opened notes that a request is sent.
func (s *DatagramSocket) opened(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) > 0 {
		s.owes = true
		s.former = append(s.former[:0], s.sent...)
	}
	s.sent = append(s.sent[:0], p...)
}

// over notes that nothing more is awaited for the open request.
func (s *DatagramSocket) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
}

// close is over for who holds mu.
func (s *DatagramSocket) close() {
	s.former = append(s.former[:0], s.sent...)
	s.sent = s.sent[:0]
}

// Read reads the next datagram, or error, that belongs to the open request.
func (s *DatagramSocket) Read(p []byte) (int, error) {
	if len(p) < 2 {
		return 0, io.ErrShortBuffer
	}
	room := p[2:min(len(p), 2+LongestDatagram)]
	for {
		n, err := s.UDPConn.Read(room)
		switch {
		case err != nil:
			if err = s.blame(err); err != nil {
				return 0, err
			}
		case s.take(room[:n]):
			binary.BigEndian.PutUint16(p, uint16(n))
			return 2 + n, nil
		case !s.identified():
			return 0, ErrStray
		}
	}
}

// take reports whether a datagram belongs to the open request, which is over then. One that answers neither this
// request nor the one before belongs to this one, unless a reply to a former is overdue: what is no reply to anything
// cannot be told from that.
func (s *DatagramSocket) take(datagram []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := len(s.sent) > 0
	if mine && s.identified() && !s.Answers(s.sent, datagram) {
		mine = !s.owes && (len(s.former) == 0 || !s.Answers(s.former, datagram))
	}
	if mine {
		s.close()
	}
	return mine
}

// blame returns what an error of the socket means for the open request: nil if an earlier request caused it. An ICMP
// error quotes its datagram (RFC 792, RFC 4443). If the kernel does not pass that on, the open request caused the error
// unless replies are overdue.
func (s *DatagramSocket) blame(err error) error {
	if !isICMP(err) || !s.identified() {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var mine error
	told := s.errors.drain(func(errno syscall.Errno, quoted []byte) {
		if s.quotes(quoted) {
			mine = &net.OpError{Op: "read", Net: "udp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: errno}
		}
	})
	if !told && !s.owes && len(s.sent) > 0 {
		mine = err
	}
	if mine != nil {
		s.close()
	}
	return mine
}

// quotes reports whether what an ICMP error quotes of a datagram is the open request's. The caller holds mu.
func (s *DatagramSocket) quotes(quoted []byte) bool {
	if len(s.sent) == 0 {
		return false
	}
	if len(quoted) < s.IDEnd {
		return !s.owes
	}
	return bytes.HasPrefix(s.sent, quoted)
}

// isICMP reports whether err may be one that an earlier datagram was answered with. The kernel reports it once
// (icmp_err_convert in Linux).
func isICMP(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(fromICMP, errno)
}

var fromICMP = []syscall.Errno{
	syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENOPROTOOPT,
	syscall.EMSGSIZE, syscall.EACCES, syscall.EOPNOTSUPP, syscall.EPROTO,
}

// ReadDatagram reads what Read of a datagramSocket gives. The datagram is valid until the next call.
func ReadDatagram(br *bufio.Reader) ([]byte, error) {
	head, err := br.Peek(2)
	if err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head))
	whole, err := br.Peek(2 + n)
	if err != nil {
		return nil, err
	}
	_, _ = br.Discard(2 + n) // it is buffered
	return whole[2:], nil
}
