// Package runtest helps the tests of runs: it lets them wait, read what several goroutines write, answer over UDP, and
// drive a run in a Pod by hand.
package runtest

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// A Buffer may be written to and read by several goroutines at once. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A PausedTerminal takes nothing until Read is closed.
type PausedTerminal struct {
	Buffer
	Read chan struct{}
}

// NewPausedTerminal returns a terminal that is paused.
func NewPausedTerminal() *PausedTerminal { return &PausedTerminal{Read: make(chan struct{})} }

func (p *PausedTerminal) Write(b []byte) (int, error) {
	<-p.Read
	return p.Buffer.Write(b)
}

// Patience is how long a test waits on a machine that has much else to do.
const Patience = 60 * time.Second

// WaitFor waits until done, which it asks every 5 ms. It fails the test after [Patience]; what says what was awaited.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for over := time.After(Patience); !done(); {
		select {
		case <-over:
			t.Fatalf("waiting for %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ServeUDP answers datagrams at an address and port until the test ends, and returns where; port 0 stands for any. No
// reply is sent where answer returns nil.
func ServeUDP(t testing.TB, at string, answer func(datagram []byte) []byte) (addr string) {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at)))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for buf := make([]byte, 65536); ; {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if reply := answer(buf[:n]); reply != nil {
				_, _ = c.WriteToUDPAddrPort(reply, from)
			}
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		serving.Wait()
	})
	return c.LocalAddr().String()
}
