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
	"slices"
	"strconv"
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
	addr  string
	cmd   *exec.Cmd
	lines chan string // what it prints
	done  chan error
}

func startProcess(t *testing.T, args ...string) *workload {
	t.Helper()
	return startProcessAs(t, append([]string{"--listen", "127.0.0.1:0", "--name", "web-1"}, args...)...)
}

// startProcessAs is startProcess with all arguments.
func startProcessAs(t *testing.T, args ...string) *workload {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "RUN_WORKLOAD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &workload{cmd: cmd, lines: make(chan string, 8), done: make(chan error, 1)}
	var read sync.WaitGroup
	read.Go(func() {
		for scan := bufio.NewScanner(out); scan.Scan(); {
			w.lines <- scan.Text()
		}
		close(w.lines)
		w.done <- cmd.Wait()
	})
	t.Cleanup(func() {
		cmd.Process.Kill()
		read.Wait()
	})
	w.addr = regexp.MustCompile(`[0-9.]+:[0-9]+`).FindString(w.prints(t, "listens on"))
	return w
}

// patience is for what takes no time: only a defect takes so long.
const patience = 30 * time.Second

// prints returns the next line that holds a text.
func (w *workload) prints(t *testing.T, text string) string {
	t.Helper()
	for timeout := time.After(patience); ; {
		select {
		case line, more := <-w.lines:
			if strings.Contains(line, text) {
				return line
			}
			if !more {
				t.Fatalf("ended without a line with %q", text)
			}
		case <-timeout:
			t.Fatalf("no line with %q", text)
		}
	}
}

// stamps are the instants in a line.
func stamps(t *testing.T, line string) (instants []time.Time) {
	t.Helper()
	for _, text := range regexp.MustCompile(`[0-9-]+T[0-9:.]+Z`).FindAllString(line, -1) {
		instant, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		instants = append(instants, instant)
	}
	return instants
}

// terminate sends SIGTERM and returns when the server took notice of it.
func (w *workload) terminate(t *testing.T) time.Time {
	t.Helper()
	w.cmd.Process.Signal(syscall.SIGTERM)
	return stamps(t, w.prints(t, "was told to end"))[0]
}

func (w *workload) ends(t *testing.T) {
	t.Helper()
	select {
	case err := <-w.done:
		if err != nil {
			t.Fatalf("ended with %v, want exit 0", err)
		}
	case <-time.After(patience):
		t.Fatal("still running")
	}
}

// counts waits until the server's own view is as wanted.
func (w *workload) counts(t *testing.T, want func(Count) bool) Count {
	t.Helper()
	c := dial(t, w.addr)
	var got Count
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		resp, body := c.mustGet(t, "/count")
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if want(got) {
			return got
		}
		if resp.Close {
			c = dial(t, w.addr)
		}
	}
	t.Fatalf("the server counts %+v", got)
	return got
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
	conn.SetDeadline(time.Now().Add(patience))
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

func TestLatencyDelaysAnswersAndNotTheProbes(t *testing.T) {
	const latency = 200 * time.Millisecond
	c := dial(t, startProcess(t, "--latency", latency.String()).addr)
	begin := time.Now()
	c.mustGet(t, "/")
	if took := time.Since(begin); took < latency {
		t.Errorf("the answer took %v", took)
	}
	endless := dial(t, startProcess(t, "--latency", "1h").addr)
	endless.mustGet(t, "/readyz")
	endless.mustGet(t, "/healthz")
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
	c := dial(t, startProcess(t, "--ready-delay", "1h").addr)
	if resp, _ := c.mustGet(t, "/readyz"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readyz %d before its delay", resp.StatusCode)
	}
	if resp, _ := c.mustGet(t, "/"); resp.StatusCode != 200 {
		t.Errorf("status %d while not ready", resp.StatusCode)
	}
}

func TestReadyDelayEnds(t *testing.T) {
	const delay = 200 * time.Millisecond
	begin := time.Now()
	c := dial(t, startProcess(t, "--ready-delay", delay.String()).addr)
	for {
		if resp, _ := c.mustGet(t, "/readyz"); resp.StatusCode == 200 {
			break
		}
	}
	if took := time.Since(begin); took < delay {
		t.Errorf("ready after %v", took)
	}
}

func TestExitIsGoneAtOnceInTheMiddleOfARequest(t *testing.T) {
	w := startProcess(t, "--latency", "1h")
	c := dial(t, w.addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	w.counts(t, func(c Count) bool { return c.Started == 1 })
	w.terminate(t)
	w.ends(t)
	if _, err := http.ReadResponse(c.r, nil); err == nil {
		t.Error("the cut request got a reply")
	}
	if _, err := net.Dial("tcp", w.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after exit: %v, want refused", err)
	}
}

func TestItPrintsBetweenWhichInstantsItStoppedListening(t *testing.T) {
	for _, behaviour := range []string{"exit", "graceful"} {
		t.Run(behaviour, func(t *testing.T) {
			w := startProcess(t, "--on-sigterm", behaviour, "--drain-for", "0s")
			before := time.Now()
			told := w.terminate(t)
			stopped := stamps(t, w.prints(t, "stopped listening"))
			w.ends(t)
			after := time.Now()
			if len(stopped) != 2 || !slices.IsSortedFunc([]time.Time{before.Round(0), told, stopped[0], stopped[1],
				after.Round(0)}, time.Time.Compare) {
				t.Errorf("signalled at %v, told to end at %v, stopped within %v, ended before %v",
					before, told, stopped, after)
			}
		})
	}
}

func TestIgnoreServesOnAfterSIGTERM(t *testing.T) {
	w := startProcess(t, "--on-sigterm", "ignore")
	c := dial(t, w.addr)
	w.terminate(t)
	w.terminate(t) // the second is heard: the first did not end it
	if resp, _ := c.mustGet(t, "/"); resp.Close {
		t.Error("ignore announces the end of the connection")
	}
}

// This is the fix that Lapse recommends, so it must be right: no request may be lost.
func TestGracefulLosesNoRequest(t *testing.T) {
	const drain = time.Second
	w := startProcess(t, "--on-sigterm", "graceful", "--drain-for", drain.String())
	var clients [4]persistent
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { clients[i].run(w.addr) })
	}
	w.counts(t, func(c Count) bool { return c.Served > 100 })
	told := w.terminate(t)
	stopped := stamps(t, w.prints(t, "stopped listening"))[0]
	w.ends(t)
	all.Wait()
	if stopped.Sub(told) < drain {
		t.Errorf("told to end at %v, stopped listening at %v, before it had served for %v", told, stopped, drain)
	}
	for _, c := range clients {
		if c.failed.Before(stopped) {
			t.Errorf("a request was lost %v before the server stopped listening: %v", stopped.Sub(c.failed), c.err)
		}
		if c.drained == 0 {
			t.Error("a client met no draining server")
		}
	}
}

// A persistent is a keep-alive client that honours Connection: close and comes back, until a request fails.
type persistent struct {
	drained int       // replies that said Connection: close
	failed  time.Time // when the first failure was known
	err     error
}

func (c *persistent) run(addr string) {
	for {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			c.failed, c.err = time.Now(), err
			return
		}
		for keep := (&client{conn, bufio.NewReader(conn)}); ; {
			resp, _, err := keep.get("/")
			if err != nil {
				c.failed, c.err = time.Now(), err
				conn.Close()
				return
			}
			if resp.Close {
				c.drained++
				break
			}
		}
		conn.Close()
	}
}

func TestGracefulAcceptsConnectionsAndClosesThemAfterAReply(t *testing.T) {
	w := startProcess(t, "--on-sigterm", "graceful", "--drain-for", "1h")
	idle := dial(t, w.addr)
	idle.mustGet(t, "/")
	w.terminate(t)
	w.counts(t, func(c Count) bool { return c.Draining })
	if resp, _ := idle.mustGet(t, "/"); !resp.Close {
		t.Error("a reply after SIGTERM does not say Connection: close")
	}
	if resp, _ := dial(t, w.addr).mustGet(t, "/readyz"); resp.StatusCode != 200 || !resp.Close {
		t.Errorf("readyz %d, close %v while draining", resp.StatusCode, resp.Close)
	}
}

// The answer is larger than what the sockets hold, so that it is under way for as long as nobody reads it.
func TestGracefulFinishesTheAnswersUnderWay(t *testing.T) {
	const size = 64 << 20
	w := startProcess(t, "--on-sigterm", "graceful", "--drain-for", "0s", "--body-size", strconv.Itoa(size))
	c := dial(t, w.addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.terminate(t)
	w.prints(t, "stopped listening")
	if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
		t.Errorf("%d of %d bytes came: %v", n, size, err)
	}
	w.ends(t)
}

func TestRequestReadBeforeSIGTERMIsAnsweredWithClose(t *testing.T) {
	const latency = 5 * time.Second // SIGTERM comes well before the answer, also on a busy machine
	w := startProcess(t, "--on-sigterm", "graceful", "--drain-for", latency.String(), "--latency", latency.String())
	c := dial(t, w.addr)
	begin := time.Now()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	w.counts(t, func(c Count) bool { return c.Started == 1 })
	w.terminate(t)
	w.counts(t, func(c Count) bool { return c.Draining })
	if time.Since(begin) >= latency {
		t.Fatal("the machine stood still for so long that the answer may have been given before SIGTERM")
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil || !resp.Close {
		t.Errorf("reply %v, error %v; want one that closes", resp, err)
	}
}

func TestCountIsWhatClientsReceived(t *testing.T) {
	patient := startProcess(t)
	c := dial(t, patient.addr)
	for range 3 {
		c.mustGet(t, "/")
	}
	got := patient.counts(t, func(c Count) bool { return c.Started == c.Served })
	if want := (Count{Pod: "web-1", Connections: 2, Started: 3, Served: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}

	slow := startProcess(t, "--latency", "1h")
	impatient := dial(t, slow.addr)
	io.WriteString(impatient, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	slow.counts(t, func(c Count) bool { return c.Started == 1 })
	impatient.Close()
	got = slow.counts(t, func(c Count) bool { return c.Failed == 1 })
	if want := (Count{Pod: "web-1", Connections: 3, Started: 1, Failed: 1}); got != want {
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

func TestReadinessEndsAtSIGTERMWhereAskedFor(t *testing.T) {
	w := startProcess(t, "--on-sigterm", "graceful", "--drain-for", "1s", "--unready-at-sigterm")
	w.terminate(t)
	w.counts(t, func(c Count) bool { return c.Draining })
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/": http.StatusOK} {
		if resp, _ := dial(t, w.addr).mustGet(t, path); resp.StatusCode != want {
			t.Errorf("%s: status %d while draining, want %d", path, resp.StatusCode, want)
		}
	}
	w.ends(t)
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"--on-sigterm": {"--on-sigterm", "hide"},
		"--body-size":  {"--body-size", "-1"},
		"--tls-key":    {"--tls-cert", "x"},
		"--backlog":    {"--backlog", "-1"},
		"--exit-code":  {"--exit-code", "256"},
		"graceful":     {"--exit-code", "1", "--on-sigterm", "graceful"},
		"extra":        {"extra"},
		"--ends ":      {"--ends", "never"},
		"--ends-over":  {"--ends-over", "1s", "--ends", "cut"},
		"--events-eve": {"--events-every", "0s"},
		"its address":  {"--close-first", "udp", "--on-sigterm", "graceful"},
		"unready-at":   {"--unready-at-sigterm"},
		"belongs to":   {"--close-first", "udp", "--udp", ":0"},
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
