package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

// usage is what a process took.
type usage struct {
	peak  int64 // bytes resident
	cpu   time.Duration
	lived time.Duration // from when it was found until it was gone
}

// watchAgent waits for the agent's process and reads what it takes, until ctx ends.
func watchAgent(ctx context.Context) (u usage) {
	var dir string
	var begun time.Time
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return u
		case <-tick.C:
		}
		if dir == "" {
			dir, begun = agentProcess(), time.Now()
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if dir == "" || err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				n, _ := strconv.ParseInt(strings.Fields(kib)[0], 10, 64) // proc_pid_status(5)
				u.peak = n << 10
			}
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		// From the 3rd field on, see proc_pid_stat(5).
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		u.cpu, u.lived = time.Duration(user+system)*10*time.Millisecond, time.Since(begun) // 100 ticks a second
	}
}

// agentProcess returns the /proc directory of the process in the Job's Pod: lapse, in a network namespace of its own.
// Empty: there is none yet.
func agentProcess() string {
	ours, _ := os.Readlink("/proc/self/ns/net")
	comms, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range comms {
		dir := filepath.Dir(path)
		comm, err := os.ReadFile(path)
		net, netErr := os.Readlink(filepath.Join(dir, "ns/net"))
		if err == nil && netErr == nil && strings.TrimSpace(string(comm)) == "lapse" && net != ours {
			return dir
		}
	}
	return ""
}

// A lateness is how late requests were sent: Sent − Due.
type lateness struct {
	p50, p99 time.Duration
}

// readLateness reads how late a run sent its requests of new and reused connections between two instants of the wall
// clock. Direct ones are left out: with them there are not the same number of targets.
func readLateness(ctx context.Context, c *drill.Cluster, run drill.Run, from, to time.Time) (l lateness, err error) {
	cmd := exec.CommandContext(ctx, c.Lapse, "export", run.Dir, "-o", "csv")
	cmd.Stderr = c.Log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return l, err
	}
	if err := cmd.Start(); err != nil {
		return l, err
	}
	in := csv.NewReader(out)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return l, err
	}
	kind, due, sent := slices.Index(head, "kind"), slices.Index(head, "due"), slices.Index(head, "sent")
	first, last := int64(from.Sub(run.Timeline.T0)), int64(to.Sub(run.Timeline.T0))
	var late []int64
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return l, err
		}
		if record[kind] != "new" && record[kind] != "reused" || record[sent] == "" {
			continue
		}
		d, dueErr := strconv.ParseInt(record[due], 10, 64)
		at, sentErr := strconv.ParseInt(record[sent], 10, 64)
		if err := cmp.Or(dueErr, sentErr); err != nil {
			return l, err
		}
		if first <= d && d < last {
			late = append(late, at-d)
		}
	}
	if len(late) == 0 {
		return l, fmt.Errorf("%s holds no request between %v and %v", run.Dir, from, to)
	}
	slices.Sort(late)
	at := func(share float64) time.Duration { return time.Duration(late[int(share*float64(len(late)-1))]) }
	return lateness{at(0.5).Round(time.Microsecond), at(0.99).Round(time.Microsecond)}, cmd.Wait()
}
