package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

// guardRuns is the directory of the runs in the guard's container.
const guardRuns = "tmp/lapse"

// A guard is one of its two Pods.
type guard struct {
	Pod      string
	Samples  []sample
	Runs     []run
	Answered struct{ Min, Max int } // as its metrics say: before the servers were asked, and after it
	Failed   int                    // requests, as its metrics say

	pid int
}

// A sample is what the process had taken by an instant.
type sample struct {
	At     time.Time
	Phase  string // what went on since the one before
	CPU    time.Duration
	Memory int // bytes of its own that are resident: those of the program's file are in the page cache
}

// A run is a line of a guard's history.
type run struct {
	Run      string
	Service  string
	T0       time.Time
	Duration time.Duration
	Sent     int
	Failed   int
	Lost     int // failures that no standstill of the machine explains
	Verdict  string
	Coverage float64
}

// guard installs a guard, and returns its two Pods once they measure all Services.
func (s settings) guard(ctx context.Context, c *drill.Cluster) ([]*guard, error) {
	if err := c.Guard(ctx, s.flags()...); err != nil {
		return nil, err
	}
	out, err := c.Kubectl(ctx, "-n", drill.GuardNamespace, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard",
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}
	var guards []*guard
	for line := range strings.Lines(out) {
		name, uid, _ := strings.Cut(strings.TrimSpace(line), " ")
		g := &guard{Pod: name}
		if g.pid, err = pidIn(uid); err != nil {
			return nil, err
		}
		guards = append(guards, g)
	}
	if len(guards) != 2 {
		return nil, fmt.Errorf("%d guards", len(guards))
	}
	return guards, nil
}

// pidIn returns the process of the guard in a Pod, found by its control group.
func pidIn(uid string) (int, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	for _, file := range groups {
		group, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(group), uid) {
			continue // it has ended, or is not of this Pod
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if strings.Contains(string(command), "\x00guard\x00") {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, fmt.Errorf("no guard runs in the Pod %s", uid)
}

// sample notes what the process has taken.
func (g *guard) sample(phase string) error {
	s := sample{At: time.Now(), Phase: phase}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.pid))
	if err != nil {
		return fmt.Errorf("the guard %s has ended: %w", g.Pod, err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	user, err := strconv.Atoi(fields[12])
	system, err2 := strconv.Atoi(fields[13])
	s.CPU = time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
	status, err3 := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.pid))
	_, own, _ := strings.Cut(string(status), "\nRssAnon:")
	_, err4 := fmt.Sscanf(own, "%d kB", &s.Memory)
	s.Memory <<= 10
	g.Samples = append(g.Samples, s)
	return errors.Join(err, err2, err3, err4)
}

// settles waits until the guard measures no disruption.
func (g *guard) settles(ctx context.Context, c *drill.Cluster) error {
	for {
		recording := 0.
		if err := c.GuardMetrics(ctx, g.Pod, func(series string, value float64) {
			if strings.HasPrefix(series, "lapse_guard_state{") && strings.Contains(series, `state="recording"`) {
				recording += value
			}
		}); err != nil || recording == 0 {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// count passes on how many requests were answered well, and how many failed.
func (g *guard) count(ctx context.Context, c *drill.Cluster, got func(answered, failed int)) error {
	answered, failed := 0., 0.
	err := c.GuardMetrics(ctx, g.Pod, func(series string, value float64) {
		switch {
		case !strings.HasPrefix(series, "lapse_requests_total{"):
		case strings.Contains(series, `outcome="failed"`):
			failed += value
		default:
			answered += value
		}
	})
	got(int(answered), int(failed))
	return err
}

// read copies the guard's runs into dir, and reads its history.
func (g *guard) read(dir string) error {
	to := filepath.Join(dir, g.Pod)
	if err := os.CopyFS(to, os.DirFS(fmt.Sprintf("/proc/%d/root/%s", g.pid, guardRuns))); err != nil {
		return err
	}
	history, err := os.Open(filepath.Join(to, "history.ndjson"))
	if err != nil {
		return err
	}
	defer history.Close()
	for lines := bufio.NewScanner(history); lines.Scan(); {
		var r run
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		r.Lost = r.Failed
		switch t, err := drill.ReadTimeline(filepath.Join(to, r.Run)); {
		case err == nil:
			r.Lost = t.Lost()
		case !errors.Is(err, fs.ErrNotExist): // it was deleted for the limit of what is kept
			return err
		}
		g.Runs = append(g.Runs, r)
	}
	return nil
}

// apiRequests returns how many requests the API server answers a second, but those of the count itself.
func apiRequests(ctx context.Context, c *drill.Cluster, length time.Duration) (float64, error) {
	count := func() (n float64, err error) {
		err = c.Metrics(ctx, "/metrics", func(series string, value float64) {
			if strings.HasPrefix(series, "apiserver_request_total{") {
				n += value
			}
		})
		return n, err
	}
	before, err := count()
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, length); err != nil {
		return 0, err
	}
	after, err := count()
	return (after - before) / length.Seconds(), err
}
