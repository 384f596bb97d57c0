package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A process is a component we started. The start time tells it from a later process with the same pid.
type process struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, from /proc/PID/stat
}

// alive: a process whose first thread has ended keeps its sockets until its last thread ends.
func (p process) alive() bool {
	st, err := readStat(p.PID)
	if err != nil || st.start != p.Start {
		return false
	}
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.PID), "task"))
	return err == nil && (st.state != 'Z' || len(threads) > 1)
}

type procStat struct {
	state  byte
	parent int
	ticks  uint64 // of CPU, user and system
	start  uint64
}

func readStat(pid int) (procStat, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(data))
}

// parseStat reads proc_pid_stat(5). The second field, the command, may itself hold spaces and parentheses.
func parseStat(line string) (procStat, error) {
	_, rest, ok := cutLast(line, ")")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 {
		return procStat{}, fmt.Errorf("not a stat line: %q", line)
	}
	number := func(field int) uint64 { // numbered as in the manual page, from 1
		n, _ := strconv.ParseUint(f[field-3], 10, 64)
		return n
	}
	return procStat{state: f[0][0], parent: int(number(4)), ticks: number(14) + number(15), start: number(22)}, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// A daemon is a component as up sees it: it may end too early.
type daemon struct {
	process
	ended chan struct{} // closed when the process has ended
}

// A componentError carries the name of the component whose log tells the rest.
type componentError struct {
	component string
	err       error
}

func (e componentError) Error() string { return e.component + " " + e.err.Error() }
func (e componentError) Unwrap() error { return e.err }

// place says where a component runs: flags of the enter verb.
type place []string

func inside(netns string) place { return place{"--net", netns} }
func beside(d *daemon) place    { return place{"--beside", strconv.Itoa(d.PID)} }
func asNode(n node, root string, keep ...string) place {
	return place{"--net", n.Netns, "--uptime", n.Uptime.String(), "--root", root,
		"--keep", strings.Join(keep, string(filepath.ListSeparator))}
}

// start begins a component that outlives us, with its output in logs/NAME.log.
func (s *sandbox) start(name string, at place, env []string, argv ...string) (*daemon, error) {
	if name == "coredns" {
		at = append(at, "--before-others")
	}
	return s.launch(name, env, nil, slices.Concat([]string{"enter"}, at, []string{"--"}, argv)...)
}

func (s *sandbox) launch(name string, env []string, files []*os.File, args ...string) (*daemon, error) {
	closeInherited()
	log, err := os.OpenFile(s.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(s.self(), args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, files
	cmd.Dir = s.Dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), unwantedEnv), env...)
	cmd.SysProcAttr = daemonAttr()
	if err := cmd.Start(); err != nil {
		return nil, componentError{name, err}
	}
	d := &daemon{process: process{Name: name, PID: cmd.Process.Pid}, ended: make(chan struct{})}
	go func() { _ = cmd.Wait(); close(d.ended) }()
	st, err := readStat(d.PID)
	if err != nil {
		return nil, componentError{name, errors.New("ended at once")}
	}
	d.Start = st.start
	return d, s.record(d.process)
}

// unwantedEnv: a proxy or a kubeconfig of the caller must not reach the components.
func unwantedEnv(entry string) bool {
	name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
	return strings.HasSuffix(name, "_PROXY") || name == "KUBECONFIG" || strings.HasPrefix(name, "ETCD_")
}

// until asks again and again until check finds nothing wrong, the component ends, or time is up. The last
// complaint becomes the error.
func (d *daemon) until(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-d.ended:
			return componentError{d.Name, errors.New("ended before it was ready")}
		case <-ctx.Done():
			return componentError{d.Name, fmt.Errorf("was not ready within %v: %w", limit, err)}
		case <-tick.C:
		}
	}
}

// tail returns the last lines of a component's log.
func tail(path string, lines int) string {
	data, _ := os.ReadFile(path)
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
