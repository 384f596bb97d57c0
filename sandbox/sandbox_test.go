package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lapse/sandbox/problem"
)

// What the reader did wrong, or the machine lacks, is one line and exit code 2.
func TestProblemsAreOneLineAndExitTwo(t *testing.T) {
	t.Setenv("LAPSE_SANDBOX_DIR", filepath.Join(t.TempDir(), "none"))
	for want, args := range map[string][]string{
		"unknown verb":         {"start"},
		"choose 1 to 20":       {"up", "--nodes", "0"},
		"choose iptables, nf":  {"up", "--proxy-mode", "ebpf"},
		"choose ipv4 or":       {"up", "--families", "ipv6"},
		"unexpected argument":  {"up", "3"},
		"run `sandbox up`":     {"kubeconfig"},
		"no sandbox is up":     {"exec", "node1", "--", "true"},
		"usage: sandbox load":  {"load"},
		"flag provided but no": {"down", "--force"},
		"not /":                {"--dir", "/", "status"},
		"sandbox lb up|down":   {"lb", "start"},
		"choose round-robin":   {"lb", "up", "--algorithm", "random"},
		"want nodeport, tcp":   {"lb", "up", "--check", "ping"},
	} {
		var out, errs strings.Builder
		code := run(t.Context(), args, &out, &errs)
		last := errs.String()[strings.LastIndex(strings.TrimSuffix("\n"+errs.String(), "\n"), "\n"):]
		if code != exitProblem || !strings.Contains(last, want) || out.Len() > 0 {
			t.Errorf("%v: exit %d, %q, want a line with %q", args, code, last, want)
		}
	}
}

func TestMachineThatCannotIsToldWhy(t *testing.T) {
	for want, err := range map[string]error{
		"needs Linux (this is darwin)": mayRun("darwin", 0),
		"needs root":                   mayRun("linux", 1000),
		"need about 1300 MiB, 390 MiB": enoughMemory("MemTotal: 9 kB\nMemAvailable:   400000 kB\n", 3),
		"sandbox down --dir /other":    notTaken(map[string]string{"lapse-cp": "/other"}, "/mine"),
		"ip netns delete lapse-cp":     notTaken(map[string]string{"lapse-cp": ""}, "/mine"),
	} {
		if _, fixable := errors.AsType[problem.Error](err); !fixable || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a problem with %q", err, want)
		}
	}
	for what, err := range map[string]error{
		"root on Linux":  mayRun("linux", 0),
		"enough memory":  enoughMemory("MemAvailable: 8000000 kB\n", 3),
		"unknown memory": enoughMemory("", 3),
		"own namespaces": notTaken(map[string]string{"lapse-cp": "/mine"}, "/mine"),
		"no namespaces":  notTaken(nil, "/mine"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	if foreign(dir) || foreign(filepath.Join(dir, "none")) {
		t.Error("an empty or absent directory is free to take")
	}
	os.WriteFile(filepath.Join(dir, "letters.txt"), nil, 0o644)
	if !foreign(dir) {
		t.Error("a directory with somebody's file is not ours")
	}
	os.WriteFile(filepath.Join(dir, stateFile), []byte("cut of"), 0o644)
	if foreign(dir) {
		t.Error("a directory with our file is ours, even if the file was cut off")
	}
}

// A down that is killed after any step leaves a directory that the next down and up take for a sandbox's.
func TestDownKilledAtAnyStepIsFinishedByTheNext(t *testing.T) {
	leave := func() string { // what an up leaves
		dir := filepath.Join(t.TempDir(), "state")
		for _, sub := range []string{"bin", "config", "etcd", "logs", "nodes/node1/var", "pki", "zz"} {
			os.MkdirAll(filepath.Join(dir, sub), 0o755)
		}
		for _, file := range []string{"kubeconfig", stateFile, stateFilePart} {
			os.WriteFile(filepath.Join(dir, file), nil, 0o644)
		}
		return dir
	}
	order := func(dir string) []string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return removalOrder(dir, entries, false)
	}
	for killedAfter := range order(leave()) {
		dir := leave()
		for _, path := range order(dir)[:killedAfter] {
			os.RemoveAll(path)
		}
		if foreign(dir) {
			t.Errorf("killed after %d steps: the directory is not known as a sandbox's", killedAfter)
		}
		if err := removeState(dir, false); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("killed after %d steps: the next down leaves the directory: %v", killedAfter, err)
		}
	}
}

// What an up that is killed at its first file leaves, and what a power cut leaves of that file, is a sandbox's.
func TestDirectoryWithACutOffStateFileIsASandboxes(t *testing.T) {
	for name, content := range map[string]string{stateFile: "", stateFilePart: "{\"dir\":"} {
		dir := filepath.Join(t.TempDir(), "state")
		os.MkdirAll(filepath.Join(dir, "bin"), 0o755)
		os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)
		if foreign(dir) || !holdsFiles(dir) {
			t.Errorf("a directory with %q in %s is what a sandbox left", content, name)
		}
		if err := removeState(dir, false); err != nil || holdsFiles(dir) {
			t.Errorf("%s: it is still there: %v", name, err)
		}
	}
}

// A lock of the caller, as of `flock FILE sandbox restart kubelet-node1`, ends with the caller.
func TestDaemonsInheritNoDescriptors(t *testing.T) {
	s := &sandbox{stateDir: stateDir{t.TempDir()}}
	os.Mkdir(s.path("bin"), 0o755)
	os.Mkdir(s.path("logs"), 0o755)
	os.WriteFile(s.self(), []byte("#!/bin/sh\nls -l /proc/$$/fd\necho listed\nexec sleep 1h\n"), 0o755)
	lock, err := os.Create(s.path("lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	inherited, err := syscall.Dup(int(lock.Fd())) // not closed on exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	d, err := s.launch("kubelet-node1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(d.PID); <-d.ended })
	err = d.until(t.Context(), time.Minute, func(context.Context) error {
		if !strings.Contains(readText(t, s.log("kubelet-node1")), "listed") {
			return errors.New("not listed yet")
		}
		return nil
	})
	if text := readText(t, s.log("kubelet-node1")); err != nil || strings.Contains(text, lock.Name()) {
		t.Errorf("the daemon has the caller's file: %v\n%s", err, text)
	}
}

// down in one directory must not end the pods of another directory's sandbox.
func TestClaimStopsAtAnotherSandbox(t *testing.T) {
	mine := claimOf(map[string]string{"lapse-cp": "/mine", "lapse-node1": ""}, "/mine")
	if !mine.cgroups || len(mine.namespaces) != 1 || len(mine.untagged) != 1 {
		t.Errorf("%+v", mine)
	}
	if other := claimOf(map[string]string{"lapse-cp": "/other"}, "/mine"); other.cgroups || len(other.namespaces) > 0 {
		t.Errorf("%+v", other)
	}
}

// The drills and the lab read it, and down of a newer sandbox what an older one has written.
func TestTheStateFileHasTheseKeys(t *testing.T) {
	s := &sandbox{
		stateDir:    stateDir{t.TempDir()},
		shape:       shape{Nodes: 3, DualStack: true},
		netnsBefore: netnsBefore{HadNetnsDir: true},
		ProxyMode:   "nftables",
		Controllers: []string{"cpu"},
	}
	if err := s.record(process{"etcd", 1, 1}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.path(stateFile))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"boot", "controllers", "dir", "dualStack", "endpoint", "hadNetnsDir", "hadNetnsMount",
		"nodes", "processes", "proxyMode", "ready", "started"}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) || got["nodes"] != 3. || got["dualStack"] != true {
		t.Errorf("%s", data)
	}
}

func TestPidsOfAnotherBootAreForgotten(t *testing.T) {
	s := &sandbox{stateDir: stateDir{t.TempDir()}, Boot: "another", Ready: true}
	if err := s.record(process{"etcd", 1, 1}); err != nil {
		t.Fatal(err)
	}
	got, err := load(s.Dir)
	if err != nil || got.Ready || len(got.Processes) > 0 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestProcessWithTheSamePidAndAnotherStartIsNotOurs(t *testing.T) {
	st, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !(process{PID: os.Getpid(), Start: st.start}).alive() ||
		(process{PID: os.Getpid(), Start: st.start - 1}).alive() {
		t.Error("alive does not go by the start time")
	}
}

func TestStatOfACommandWithParentheses(t *testing.T) {
	line := "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 98765 1 1"
	got, err := parseStat(line)
	want := procStat{state: 'S', parent: 7, ticks: 200, start: 98765}
	if err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := parseStat("nonsense"); err == nil {
		t.Error("nonsense was parsed")
	}
}

func TestCgroupHierarchiesOfBothVersions(t *testing.T) {
	got := parseHierarchies(`24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
31 24 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`)
	want := []hierarchy{
		{path: "/sys/fs/cgroup/cpu,cpuacct"},
		{path: "/sys/fs/cgroup/cpuset", cpuset: true},
		{path: "/sys/fs/cgroup/unified", v2: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// A version 2 hierarchy cannot be had on a version 1 machine, but its files can be played.
func TestControllersAreSwitchedOnOnce(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpuset cpu io memory pids rdma\n"), 0o644)
	os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("memory pids\n"), 0o644)
	if got, want := delegate(dir), []string{"cpuset", "cpu", "io"}; !reflect.DeepEqual(got, want) {
		t.Errorf("switched on %v, want %v", got, want)
	}
}

func TestAllPodsWeighAsMuchAsOnMachinesOfTheirOwn(t *testing.T) {
	if got := podShares(2, 3); got != 6144 {
		t.Errorf("the pods of 3 nodes with 2 cores have %d shares", got)
	}
	for shares, want := range map[int]int{0: 1, 2: 1, 1024: 39, 6144: 235, 262144: 10000, 1 << 20: 10000} {
		if got := weightOf(shares); got != want {
			t.Errorf("%d shares weigh %d, want %d", shares, got, want)
		}
	}
	for file, h := range map[string]hierarchy{"cpu.shares": {}, "cpu.weight": {v2: true}} {
		dir := t.TempDir()
		if err := h.weigh(dir, 6144); err != nil {
			t.Errorf("a hierarchy without CPU: %v", err)
		}
		os.WriteFile(filepath.Join(dir, file), []byte("100"), 0o644)
		if err := h.weigh(dir, 6144); err != nil ||
			readText(t, filepath.Join(dir, file)) != map[string]string{"cpu.shares": "6144",
				"cpu.weight": "235"}[file] {
			t.Errorf("%s: %q, %v", file, readText(t, filepath.Join(dir, file)), err)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestParallelReturnsTheFirstErrorAndStopsTheRest(t *testing.T) {
	first := errors.New("first")
	err := parallel(t.Context(),
		func(context.Context) error { return first },
		func(ctx context.Context) error { <-ctx.Done(); return errors.New("second") })
	if !errors.Is(err, first) {
		t.Errorf("%v", err)
	}
	if err := parallel(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("%v", err)
	}
}

func TestDaemonThatEndsIsNotWaitedFor(t *testing.T) {
	d := &daemon{process: process{Name: "etcd"}, ended: make(chan struct{})}
	close(d.ended)
	err := d.until(t.Context(), time.Minute, func(context.Context) error { return errors.New("no") })
	if failed, ok := errors.AsType[componentError](err); !ok || failed.component != "etcd" {
		t.Errorf("%v", err)
	}
	slow := &daemon{process: process{Name: "kubelet-node1"}, ended: make(chan struct{})}
	err = slow.until(t.Context(), time.Millisecond,
		func(context.Context) error { return errors.New("not ready: no CNI") })
	if err == nil || !strings.Contains(err.Error(), "not ready: no CNI") {
		t.Errorf("%v: the last complaint is missing", err)
	}
}

func TestRelayPassesOnTheEndOfAStream(t *testing.T) {
	pair := func() (a, b *net.TCPConn) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn), peer.(*net.TCPConn)
	}
	client, left := pair()
	right, server := pair()
	go copyAndClose(right, left)
	go copyAndClose(left, right)
	go func() {
		question, _ := io.ReadAll(server) // ends only if the client's end is passed on
		fmt.Fprintf(server, "got %s", question)
		server.Close()
	}()
	io.WriteString(client, "stdin")
	client.CloseWrite()
	client.SetDeadline(time.Now().Add(5 * time.Second))
	if answer, err := io.ReadAll(client); err != nil || string(answer) != "got stdin" {
		t.Errorf("%q %v", answer, err)
	}
}

func TestUnwantedVariablesDoNotReachComponents(t *testing.T) {
	for entry, unwanted := range map[string]bool{"https_proxy=x": true, "NO_PROXY=": true, "KUBECONFIG=a": true,
		"ETCD_NAME=a": true, "PATH=/bin": false} {
		if unwantedEnv(entry) != unwanted {
			t.Error(entry)
		}
	}
}
