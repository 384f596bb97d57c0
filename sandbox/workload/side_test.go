package main

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// serves returns the address of another protocol.
func (w *workload) serves(t *testing.T, protocol string) string {
	t.Helper()
	return regexp.MustCompile(`[0-9.]+:[0-9]+`).FindString(w.prints(t, "serves "+protocol+" on"))
}

// asks writes a message on a connection and reads as much as is expected.
func asks(t *testing.T, conn net.Conn, message, want string) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, message); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Errorf("the echo of %q is %q (%v), want %q", message, got, err, want)
	}
}

func TestTCPEchoesAndNamesThePod(t *testing.T) {
	conn := dial(t, startProcess(t, "--tcp", "127.0.0.1:0").serves(t, "tcp"))
	asks(t, conn, "ping", "ping")
	asks(t, conn, "who", "web-1")
	asks(t, conn, "who\n", "web-1\n")
	asks(t, dial(t, startProcess(t, "--tcp", "127.0.0.1:0", "--echo-name").serves(t, "tcp")), "ping", "web-1 ping")
}

// drain is for how long a server drains that is asked something meanwhile: longer than a busy machine stands still.
const drain = 2 * time.Second

func TestTCPConnectionsEndAsAskedFor(t *testing.T) {
	for ends, want := range map[string]error{"warn": io.EOF, "cut": syscall.ECONNRESET} {
		t.Run(ends, func(t *testing.T) {
			t.Parallel()
			w := startProcess(t, "--tcp", "127.0.0.1:0", "--on-sigterm", "graceful",
				"--drain-for", drain.String(), "--ends", ends)
			addr := w.serves(t, "tcp")
			conn := dial(t, addr)
			asks(t, conn, "ping", "ping")
			begin := time.Now()
			w.terminate(t)
			asks(t, conn, "ping", "ping")
			asks(t, dial(t, addr), "new", "new")
			_, err := conn.Read(make([]byte, 1))
			if !errors.Is(err, want) || time.Since(begin) < drain {
				t.Errorf("%v after %v, want %v", err, time.Since(begin), want)
			}
			w.ends(t)
		})
	}
}

func TestTCPEchoesOverTLS(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	writeSelfSigned(t, cert, key)
	addr := startProcess(t, "--tcp", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key).serves(t, "tcp")
	asks(t, dialTLS(t, addr), "ping", "ping")
}

func TestHeldConnectionsAreCountedAndEndOneByOne(t *testing.T) {
	const over = time.Second
	w := startProcess(t, "--tcp", "127.0.0.1:0", "--on-sigterm", "graceful",
		"--drain-for", "0s", "--ends-over", over.String())
	addr := w.serves(t, "tcp")
	ended := make(chan time.Time, 4)
	for range cap(ended) {
		conn := dial(t, addr)
		asks(t, conn, "ping", "ping")
		go func() {
			conn.Read(make([]byte, 1))
			ended <- time.Now()
		}()
	}
	w.counts(t, func(c Count) bool { return c.Held == 4 })
	told := w.terminate(t)
	var first, last time.Duration
	for i := range cap(ended) {
		last = (<-ended).Sub(told)
		if i == 0 {
			first = last
		}
	}
	if last < over*3/4 || last-first < over/2 {
		t.Errorf("the first ended %v after SIGTERM, the last one %v, want them spread over %v", first, last, over)
	}
	w.ends(t)
}

func TestUDPEchoesUntilItsEnd(t *testing.T) {
	t.Parallel()
	w := startProcess(t, "--udp", "127.0.0.1:0", "--on-sigterm", "graceful", "--drain-for", drain.String())
	conn, err := net.Dial("udp", w.serves(t, "udp"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	asks(t, conn, "ping", "ping")
	asks(t, conn, "who", "web-1")
	w.terminate(t)
	asks(t, conn, "still", "still")
	w.ends(t)
	conn.Write([]byte("ping"))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after its end: %v, want the port unreachable", err)
	}
}

func TestAPortIsClosedBeforeTheRest(t *testing.T) {
	w := startProcess(t, "--udp", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--on-sigterm", "graceful",
		"--drain-for", "5s", "--close-first", "udp")
	tcp := w.serves(t, "tcp")
	conn, err := net.Dial("udp", w.serves(t, "udp"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	asks(t, conn, "ping", "ping")
	w.terminate(t)
	// what was sent before the socket was closed is answered, or lost with it
	for err = nil; err == nil || errors.Is(err, os.ErrDeadlineExceeded); {
		conn.SetDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err = conn.Write([]byte("p")); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want the port unreachable", err)
	}
	asks(t, dial(t, tcp), "still", "still")
	w.ends(t)
}

func TestAPortThatIsTakenIsAnError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = run(t.Context(), Options{Listen: "127.0.0.1:0", TCP: taken.Addr().String(), OnSIGTERM: "exit"},
		nil, io.Discard)
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, want the address in use", err)
	}
}
