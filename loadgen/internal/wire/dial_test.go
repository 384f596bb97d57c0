package wire

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/timeline"
)

// A look-up whose first question could not be asked, and whose others were answered with "no such host", says nothing
// about the name.
func TestLookUpThatCouldNotAskAllIsLocal(t *testing.T) {
	server := noSuchHost(t)
	for _, test := range []struct {
		short int64 // how many of the first questions meet the shortage
		want  timeline.Class
	}{{0, timeline.DNS}, {1, timeline.Local}} {
		var asked atomic.Int64
		ips, err := lookUp(t.Context(), "web.test.", func(ctx context.Context, _, _ string) (net.Conn, error) {
			if asked.Add(1) <= test.short {
				return nil, &net.OpError{Op: "dial", Net: "udp", Err: fmt.Errorf("socket: %w", syscall.EMFILE)}
			}
			return new(net.Dialer).DialContext(ctx, "udp", server)
		})
		if class := Classify(err, Resolving); err == nil || class != test.want {
			t.Errorf("%d of %d questions not asked: %v, %v, class %v, want %v", test.short, asked.Load(), ips, err,
				class, test.want)
		}
		if asked.Load() < 2 {
			t.Errorf("%d questions, want one for each address family", asked.Load())
		}
	}
}

// noSuchHost returns the address of a name server that knows no name.
func noSuchHost(t *testing.T) string {
	t.Helper()
	listener, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		packet := make([]byte, 1500)
		for {
			n, from, err := listener.ReadFrom(packet)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(packet[:n]) != nil {
				continue
			}
			m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeNameError, nil
			if reply, err := m.Pack(); err == nil {
				_, _ = listener.WriteTo(reply, from)
			}
		}
	}()
	return listener.LocalAddr().String()
}
