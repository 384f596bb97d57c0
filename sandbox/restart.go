package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lapse/sandbox/problem"
)

// runRestart ends a component, if it runs, and starts it again as it was: with the same command line and environment,
// in the same namespaces. Its containers go on. It returns when the component serves again: a kubelet that is started
// and cannot reach its containerd, for that one is restarted next, exits.
func runRestart(ctx context.Context, a *app, args []string) error {
	if len(args) != 1 {
		return problem.Errorf("usage: sandbox restart COMPONENT, such as kubelet-node1; `sandbox status` lists them")
	}
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	old, ok := s.process(args[0])
	if !ok {
		return problem.Errorf("no component %q: `sandbox status` lists them", args[0])
	}
	if !old.alive() {
		return problem.Errorf("%s has ended: `sandbox down`, then `sandbox up`", old.Name)
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
	at, err := s.placeOf(old.Name, argv)
	if err != nil {
		return err
	}
	if err := endOne(ctx, old, 10*time.Second); err != nil {
		return err
	}
	s.mu.Lock()
	s.Processes = slices.DeleteFunc(s.Processes, func(p process) bool { return p.Name == old.Name })
	s.mu.Unlock()
	component, err := s.start(old.Name, at, env, argv...)
	if err != nil {
		return err
	}
	return component.until(ctx, time.Minute, func(ctx context.Context) error {
		return s.serves(ctx, component.process)
	})
}

// servers are the ports on which components serve, by the first part of their names.
var servers = map[string]string{
	"etcd":                    etcdAddr,
	"kube-apiserver":          net.JoinHostPort(controlPlaneAddr, apiPort),
	"kube-controller-manager": "127.0.0.1:10257",
	"kube-scheduler":          "127.0.0.1:10259",
	"coredns":                 net.JoinHostPort(controlPlaneAddr, "53"),
	"kubelet":                 "127.0.0.1:10250",
	"kube-proxy":              "127.0.0.1:10256", // /healthz
}

// serves connects to a component, where it listens.
func (s *sandbox) serves(ctx context.Context, p process) error {
	kind, number, onNode := strings.Cut(p.Name, "-node")
	if isOuter(p.Name) {
		return nil // nobody can tell from outside
	}
	ns := controlPlaneNetns
	if onNode {
		ns = "lapse-node" + number
	}
	network, addr := "tcp", servers[kind]
	if kind == "containerd" {
		network, addr = "unix", fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", p.PID)
	}
	conn, err := dialIn(ctx, ns, network, addr)
	if err == nil {
		conn.Close()
	}
	return err
}

// isOuter reports whether a component is neither a node's nor the control plane's.
func isOuter(name string) bool { return name == balancerProcess || name == ingressProcess }

// placeOf returns where a component is started again.
func (s *sandbox) placeOf(name string, argv []string) (place, error) {
	if isOuter(name) {
		return s.outerPlace(argv)
	}
	neighbour, err := s.neighbour(name)
	return place{"--beside", strconv.Itoa(neighbour.PID)}, err
}

// neighbour returns a process in the same namespaces as a component: another one of its node, or of the control plane.
func (s *sandbox) neighbour(name string) (process, error) {
	_, node, _ := strings.Cut(name, "-node")
	for _, p := range s.Processes {
		_, other, _ := strings.Cut(p.Name, "-node")
		if p.Name != name && p.Name != "relay" && !isOuter(p.Name) && other == node && p.alive() {
			return p, nil
		}
	}
	return process{}, problem.Errorf("nothing else runs where %s ran: `sandbox down`, then `sandbox up`", name)
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
