package polled

import (
	"net"
	"testing"
)

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (ours, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), other.Close() })
	return c.(*net.TCPConn), other.(*net.TCPConn)
}
