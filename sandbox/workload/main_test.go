package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets a test run the workload as a process of its own: what a process does when it dies cannot be
// seen from inside.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_WORKLOAD") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

type workload struct {
	addr string
	cmd  *exec.Cmd
	done chan error
}

func startProcess(t *testing.T, args ...string) *workload {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"--listen", "127.0.0.1:0", "--name", "web-1"}, args...)...)
	cmd.Env = append(os.Environ(), "RUN_WORKLOAD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	w := &workload{cmd: cmd, done: make(chan error, 1)}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no address: %v", err)
	}
	w.addr = regexp.MustCompile(`[0-9.]+:[0-9]+`).FindString(line)
	go func() { w.done <- cmd.Wait() }()
	return w
}

func (w *workload) terminate() { w.cmd.Process.Signal(syscall.SIGTERM) }

func (w *workload) ends(t *testing.T, within time.Duration) {
	t.Helper()
	select {
	case err := <-w.done:
		if err != nil {
			t.Fatalf("ended with %v, want exit 0", err)
		}
	case <-time.After(within):
		t.Fatalf("still running after %v", within)
	}
}

func (w *workload) runs(t *testing.T, after time.Duration) {
	t.Helper()
	select {
	case err := <-w.done:
		t.Fatalf("ended (%v) although it should run", err)
	case <-time.After(after):
	}
}

// A client is one keep-alive connection whose requests nothing re-sends.
type client struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return &client{conn, bufio.NewReader(conn)}
}

func (c *client) get(path string) (*http.Response, string, error) {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return nil, "", err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func (c *client) mustGet(t *testing.T, path string) (*http.Response, string) {
	t.Helper()
	resp, body, err := c.get(path)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return resp, body
}

func TestEveryReplyNamesThePodAndKeepsTheConnection(t *testing.T) {
	c := dial(t, startProcess(t).addr)
	for _, path := range []string{"/", "/any/thing", "/readyz", "/healthz", "/count"} {
		resp, _ := c.mustGet(t, path)
		if got := resp.Header.Get("X-Pod"); got != "web-1" || resp.StatusCode != 200 || resp.Close {
			t.Errorf("%s: X-Pod %q, status %d, close %v", path, got, resp.StatusCode, resp.Close)
		}
	}
}

func TestBodyHasTheSizeAskedFor(t *testing.T) {
	for size, args := range map[int][]string{2: nil, 0: {"--body-size", "0"}, 4096: {"--body-size", "4096"}} {
		resp, body := dial(t, startProcess(t, args...).addr).mustGet(t, "/")
		if len(body) != size || resp.ContentLength != int64(size) {
			t.Errorf("size %d: body %d, Content-Length %d", size, len(body), resp.ContentLength)
		}
	}
}

func TestLatencyDelaysAnswersButNotReadiness(t *testing.T) {
	c := dial(t, startProcess(t, "--latency", "200ms").addr)
	begin := time.Now()
	c.mustGet(t, "/readyz")
	ready := time.Since(begin)
	c.mustGet(t, "/")
	if answer := time.Since(begin) - ready; answer < 200*time.Millisecond || ready > 150*time.Millisecond {
		t.Errorf("answer took %v, readyz %v", answer, ready)
	}
}

func TestStartDelayKeepsThePortClosed(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	begin := time.Now()
	go run(t.Context(), Options{Listen: addr, StartDelay: 300 * time.Millisecond, OnSIGTERM: "exit"}, nil, io.Discard)
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			break
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("listened after %v", took)
	}
}

func TestReadyDelayAnswersNotYetWhileServing(t *testing.T) {
	c := dial(t, startProcess(t, "--ready-delay", "300ms").addr)
	if resp, _ := c.mustGet(t, "/readyz"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("readyz %d before its delay", resp.StatusCode)
	}
	if resp, _ := c.mustGet(t, "/"); resp.StatusCode != 200 {
		t.Fatalf("status %d while not ready", resp.StatusCode)
	}
	for {
		resp, _ := c.mustGet(t, "/readyz")
		if resp.StatusCode == 200 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestExitIsGoneAtOnceInTheMiddleOfARequest(t *testing.T) {
	w := startProcess(t, "--latency", "10s")
	c := dial(t, w.addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	time.Sleep(50 * time.Millisecond)
	w.terminate()
	w.ends(t, 3*time.Second) // the race detector alone waits 1 s at exit
	if _, err := http.ReadResponse(c.r, nil); err == nil {
		t.Error("the cut request got a reply")
	}
	if _, err := net.Dial("tcp", w.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after exit: %v, want refused", err)
	}
}

func TestIgnoreServesOnAfterSIGTERM(t *testing.T) {
	w := startProcess(t, "--on-sigterm", "ignore")
	c := dial(t, w.addr)
	w.terminate()
	w.runs(t, 200*time.Millisecond)
	if resp, _ := c.mustGet(t, "/"); resp.Close {
		t.Error("ignore announces the end of the connection")
	}
}

// This is the fix that Lapse recommends, so it must be right: no request may be lost.
func TestGracefulLosesNoRequest(t *testing.T) {
	const drain = 700 * time.Millisecond
	w := startProcess(t, "--on-sigterm", "graceful", "--drain-for", drain.String())
	var clients sync.WaitGroup
	var stop = make(chan struct{})
	for range 4 { // keep-alive clients that honour Connection: close and come back
		clients.Go(func() {
			for c := dial(t, w.addr); ; {
				select {
				case <-stop:
					c.Close() // or Shutdown would wait for its first request
					return
				default:
				}
				resp, _, err := c.get("/")
				if err != nil {
					t.Errorf("a request was lost: %v", err)
					return
				}
				if resp.Close {
					c = dial(t, w.addr)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	idle := dial(t, w.addr)
	idle.mustGet(t, "/")
	time.Sleep(100 * time.Millisecond)
	begin := time.Now()
	w.terminate()
	time.Sleep(200 * time.Millisecond)
	if resp, _ := idle.mustGet(t, "/"); !resp.Close {
		t.Error("a reply after SIGTERM does not say Connection: close")
	}
	if resp, _ := dial(t, w.addr).mustGet(t, "/readyz"); resp.StatusCode != 200 {
		t.Errorf("readyz %d while draining", resp.StatusCode)
	}
	time.Sleep(drain - 150*time.Millisecond - time.Since(begin))
	close(stop)
	clients.Wait()
	w.ends(t, 3*time.Second)
	if took := time.Since(begin); took < drain {
		t.Errorf("ended after %v, before it had served for %v", took, drain)
	}
}

func TestGracefulFinishesTheAnswersUnderWay(t *testing.T) {
	w := startProcess(t, "--on-sigterm", "graceful", "--drain-for", "50ms", "--latency", "500ms")
	c := dial(t, w.addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	time.Sleep(50 * time.Millisecond)
	w.terminate()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil || !resp.Close {
		t.Fatalf("reply %v, error %v; want one that closes", resp, err)
	}
	w.ends(t, 2*time.Second)
}

func TestCountIsWhatClientsReceived(t *testing.T) {
	w := startProcess(t, "--latency", "100ms")
	c := dial(t, w.addr)
	for range 3 {
		c.mustGet(t, "/")
	}
	impatient := dial(t, w.addr)
	io.WriteString(impatient, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	time.Sleep(20 * time.Millisecond)
	impatient.Close()
	time.Sleep(150 * time.Millisecond)
	_, body := c.mustGet(t, "/count")
	var got Count
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	want := Count{Pod: "web-1", Connections: 2, Started: 4, Served: 3, Failed: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestServesHTTPSWithACertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	writeSelfSigned(t, cert, key)
	w := startProcess(t, "--tls-cert", cert, "--tls-key", key)
	hc := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := hc.Get("https://" + w.addr)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.Header.Get("X-Pod") != "web-1" {
		t.Error("no X-Pod over TLS")
	}
}

func TestGetPrintsStatusAndPod(t *testing.T) {
	var out bytes.Buffer
	if err := get(t.Context(), "http://"+startProcess(t).addr+"/", &out); err != nil || out.String() != "200 web-1\n" {
		t.Errorf("get printed %q, error %v", out.String(), err)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"--on-sigterm": {"--on-sigterm", "hide"},
		"--body-size":  {"--body-size", "-1"},
		"--tls-key":    {"--tls-cert", "x"},
		"extra":        {"extra"},
	} {
		if _, err := parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one naming %s", args, err, want)
		}
	}
}

func TestSIGTERMDuringStartDelayEndsIt(t *testing.T) {
	terminate := make(chan os.Signal, 1)
	terminate <- syscall.SIGTERM
	err := run(context.Background(), Options{StartDelay: time.Hour, OnSIGTERM: "graceful"}, terminate, io.Discard)
	if err != nil {
		t.Error(err)
	}
}
