package cli

import (
	"io"
	"net"
	"sync"
	"testing"

	"lapse/internal/run/spec"
)

// serveEcho sends back what comes, until the test ends, and returns where.
func serveEcho(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	return listener.Addr().String()
}

func TestEscapesAreGos(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", ""}, {"ping", "ping"}, {`PING\r\n`, "PING\r\n"}, {`\x00\xff\\`, "\x00\xff\\"}, {`"quoted" 'é' \u00e9`, `"quoted" 'é' é`}, {"raw\n", "raw\n"},
	}
	for _, test := range tests {
		if got, err := spec.Unescape(test.text); err != nil || got != test.want {
			t.Errorf("%q is %q (%v), want %q", test.text, got, err, test.want)
		}
	}
	for _, text := range []string{`\`, `\q`, `ping\x1`} {
		if _, err := spec.Unescape(text); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}
