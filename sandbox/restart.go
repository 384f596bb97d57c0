package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// runRestart ends a component, if it runs, and starts it again as it was: with the same command line and environment, in the
// same namespaces. Its containers go on.
func runRestart(ctx context.Context, a *app, args []string) error {
	if len(args) != 1 {
		return problemf("usage: sandbox restart COMPONENT, such as kubelet-node1; `sandbox status` lists them")
	}
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	old, ok := s.process(args[0])
	if !ok {
		return problemf("no component %q: `sandbox status` lists them", args[0])
	}
	neighbour, err := s.neighbour(old.Name)
	if err != nil {
		return err
	}
	if !old.alive() {
		return problemf("%s has ended: `sandbox down`, then `sandbox up`", old.Name)
	}
	proc := filepath.Join("/proc", strconv.Itoa(old.PID))
	argv, err := readStrings(filepath.Join(proc, "cmdline"))
	if err != nil {
		return err
	}
	env, err := readStrings(filepath.Join(proc, "environ"))
	if err != nil {
		return err
	}
	if err := endOne(ctx, old, 10*time.Second); err != nil {
		return err
	}
	s.mu.Lock()
	s.Processes = slices.DeleteFunc(s.Processes, func(p process) bool { return p.Name == old.Name })
	s.mu.Unlock()
	_, err = s.start(old.Name, place{"--beside", strconv.Itoa(neighbour.PID)}, env, argv...)
	return err
}

// neighbour is a process that lives in the same namespaces as a component: another one of its node, or of the control plane.
func (s *sandbox) neighbour(name string) (process, error) {
	_, node, _ := strings.Cut(name, "-node")
	for _, p := range s.Processes {
		_, other, _ := strings.Cut(p.Name, "-node")
		if p.Name != name && p.Name != "relay" && other == node && p.alive() {
			return p, nil
		}
	}
	return process{}, problemf("nothing else runs where %s ran: `sandbox down`, then `sandbox up`", name)
}

// readStrings reads a file of strings that end in a zero byte each, as /proc/PID/cmdline.
func readStrings(path string) (all []string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for text := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte{0}), []byte{0}) {
		all = append(all, string(text))
	}
	return all, nil
}

// endOne asks a process to end, and makes it end when time is up.
func endOne(ctx context.Context, p process, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	if err := unix.Kill(p.PID, unix.SIGTERM); err != nil {
		return fmt.Errorf("end %s: %w", p.Name, err)
	}
	for p.alive() {
		if time.Now().After(deadline) || ctx.Err() != nil {
			kill(p.PID)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}
