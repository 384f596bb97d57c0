package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func status(t *testing.T, w *workload, path string) int {
	t.Helper()
	resp, _ := dial(t, w.addr).mustGet(t, path)
	return resp.StatusCode
}

func TestSwitchesChangeWhatItAnswers(t *testing.T) {
	w := startProcess(t)
	for _, c := range []struct {
		off, on, path string
		while         int
	}{
		{"/ready/off", "/ready/on", "/readyz", 503},
		{"/healthy/off", "/healthy/on", "/healthz", 500},
		{"/broken/on", "/broken/off", "/", 503},
	} {
		for _, step := range []struct {
			call string
			want int
		}{{"", 200}, {c.off, c.while}, {c.on, 200}} {
			if step.call != "" {
				status(t, w, step.call)
			}
			if got := status(t, w, c.path); got != step.want {
				t.Errorf("%s after %q: %d, want %d", c.path, step.call, got, step.want)
			}
		}
	}
}

func TestReadinessFollowsThePeer(t *testing.T) {
	var broken atomic.Bool
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(500)
		}
	}))
	defer peer.Close()
	w := startProcess(t, "--ready-peer", peer.URL)
	if got := status(t, w, "/readyz"); got != 200 {
		t.Errorf("readyz %d while the peer answers", got)
	}
	broken.Store(true)
	if got := status(t, w, "/readyz"); got != 503 {
		t.Errorf("readyz %d while the peer answers 500", got)
	}
	peer.Close()
	if got := status(t, w, "/readyz"); got != 503 {
		t.Errorf("readyz %d without the peer", got)
	}
	if got := status(t, w, "/"); got != 200 {
		t.Errorf("%d without the peer: want it to serve on", got)
	}
}

func TestWarmUpIsReadyAndAnswers503(t *testing.T) {
	w := startProcess(t, "--warm-up", "1h")
	if ready, answer := status(t, w, "/readyz"), status(t, w, "/"); ready != 200 || answer != 503 {
		t.Errorf("readyz %d, answer %d", ready, answer)
	}
	if got := status(t, startProcess(t, "--warm-up", "1ns"), "/"); got != 200 {
		t.Errorf("%d after it", got)
	}
}

func TestIdleTimeoutClosesAConnectionThatWaits(t *testing.T) {
	const idle = 200 * time.Millisecond
	c := dial(t, startProcess(t, "--idle-timeout", idle.String()).addr)
	c.mustGet(t, "/")
	begin := time.Now()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d, %v: want the end", n, err)
	}
	if took := time.Since(begin); took < idle/2 {
		t.Errorf("closed after %v", took)
	}
}

func TestCrashExitsWithTheCode(t *testing.T) {
	w := startProcess(t)
	if _, _, err := dial(t, w.addr).get("/crash/7"); err == nil {
		t.Error("the crash was answered")
	}
	exitsWith(t, w, 7)
}

func TestExitCodeAfterSIGTERM(t *testing.T) {
	w := startProcess(t, "--exit-code", "3")
	w.terminate(t)
	exitsWith(t, w, 3)
}

func exitsWith(t *testing.T, w *workload, code int) {
	t.Helper()
	select {
	case err := <-w.done:
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != code {
			t.Errorf("ended with %v, want exit code %d", err, code)
		}
	case <-time.After(patience):
		t.Fatal("still running")
	}
}

func TestEatTakesMemory(t *testing.T) {
	w := startProcess(t)
	before := resident(t, w)
	status(t, w, "/eat/50")
	if took := resident(t, w) - before; took < 50*1024 {
		t.Errorf("it took %d KiB", took)
	}
	if got := status(t, w, "/eat/much"); got != http.StatusBadRequest {
		t.Errorf("status %d for no number", got)
	}
}

// resident is the memory of a process in KiB, from proc_pid_statm(5).
func resident(t *testing.T, w *workload) (kib int) {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(w.cmd.Process.Pid) + "/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() / 1024
}

// With a queue of one and nobody who accepts, the kernel drops the SYN of the third or so: its connect gets no answer.
func TestBacklogFillsWhileNothingIsAccepted(t *testing.T) {
	w := startProcess(t, "--backlog", "1", "--accept-delay", "1h")
	for range 8 {
		conn, err := net.DialTimeout("tcp", w.addr, 500*time.Millisecond)
		if err != nil {
			if failed, ok := errors.AsType[net.Error](err); !ok || !failed.Timeout() {
				t.Errorf("connect: %v, want a timeout", err)
			}
			return
		}
		defer conn.Close()
	}
	t.Error("8 connections were queued")
}

func TestAcceptDelayEnds(t *testing.T) {
	const delay = 300 * time.Millisecond
	begin := time.Now()
	w := startProcess(t, "--accept-delay", delay.String())
	if got := status(t, w, "/"); got != 200 || time.Since(begin) < delay {
		t.Errorf("status %d after %v", got, time.Since(begin))
	}
}

func TestProxyPassesOnUntilSIGTERM(t *testing.T) {
	server := startProcess(t)
	begun := startProcessAs(t, "proxy", "--listen", "127.0.0.1:0", "--to", server.addr)
	c := dial(t, begun.addr)
	if resp, _ := c.mustGet(t, "/"); resp.Header.Get("X-Pod") != "web-1" {
		t.Error("another server answered")
	}
	begun.cmd.Process.Signal(syscall.SIGTERM)
	begun.prints(t, "stopped listening")
	begun.ends(t)
	if _, _, err := c.get("/"); err == nil {
		t.Error("the connection outlived the proxy")
	}
	if _, err := net.Dial("tcp", begun.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after its end: %v, want refused", err)
	}
}

func TestShellKeepsSIGTERMFromTheServer(t *testing.T) {
	w := startProcessAs(t, "shell", "--listen", "127.0.0.1:0", "--name", "web-1")
	w.cmd.Process.Signal(syscall.SIGTERM)
	status(t, w, "/ready/off") // it serves on
	if _, _, err := dial(t, w.addr).get("/crash/4"); err == nil {
		t.Error("the crash was answered")
	}
	exitsWith(t, w, 4)
}
