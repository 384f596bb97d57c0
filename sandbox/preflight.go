package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"lapse/sandbox/build"
	"lapse/sandbox/problem"
)

// preflight says in one line what would go wrong, before anything is made.
func preflight(ctx context.Context, dir string) error {
	if err := mayRun(runtime.GOOS, os.Geteuid()); err != nil {
		return err
	}
	if err := build.NeedTools(); err != nil {
		return err
	}
	if _, err := exec.LookPath("go"); err != nil {
		return problem.Errorf("go is not on PATH: the components are built from source")
	}
	if err := mayMakeNetns(); err != nil {
		return problem.Errorf("this root may not make namespaces (%v): in a container, run it with --privileged", err)
	}
	if foreign(dir) && len(claimOf(netnsOwners(ctx), dir).namespaces) == 0 {
		return problem.Errorf("%s holds something that is no sandbox: empty it, or choose another --dir", dir)
	}
	return nil
}

func mayRun(goos string, uid int) error {
	switch {
	case goos != "linux":
		const why = "it is made of network namespaces and cgroups"
		return problem.Errorf("the sandbox needs Linux (this is %s): %s", goos, why)
	case uid != 0:
		return problem.Errorf("the sandbox needs root for namespaces and mounts: run it with sudo")
	}
	return nil
}

// notTaken: a machine has one sandbox. The namespaces' tags tell whose they are.
func notTaken(owners map[string]string, dir string) error {
	for name, owner := range owners {
		switch owner {
		case dir:
		case "":
			return problem.Errorf("a network namespace %s exists and is not ours: remove it with `ip netns delete %s`",
				name, name)
		default:
			return problem.Errorf("there is a sandbox in %s already: use it, or end it with `sandbox down --dir %s`",
				owner, owner)
		}
	}
	return nil
}

// Measured: the control plane takes about 600 MiB, a node about 200.
const (
	controlPlaneMiB = 700
	nodeMiB         = 200
)

func enoughMemory(meminfo string, nodes int) error {
	available, ok := availableMiB(meminfo)
	need := controlPlaneMiB + nodes*nodeMiB
	if ok && available < need {
		return problem.Errorf("too little memory: %d nodes need about %d MiB, %d MiB are available; "+
			"use fewer --nodes or end something", nodes, need, available)
	}
	return nil
}

func availableMiB(meminfo string) (int, bool) {
	for line := range strings.Lines(meminfo) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemAvailable:" {
			kib, err := strconv.Atoi(f[1])
			return kib / 1024, err == nil
		}
	}
	return 0, false
}

func runSetup(ctx context.Context, a *app, args []string) error {
	if err := parseVerb(a, "setup", args, nil); err != nil {
		return err
	}
	if err := mayRun(runtime.GOOS, os.Geteuid()); err != nil {
		return err
	}
	if err := build.InstallTools(ctx, a.log); err != nil {
		return err
	}
	_, err := prepare(ctx, a)
	if err == nil {
		fmt.Fprintln(a.log, "the sandbox is prepared; next: sandbox up")
	}
	return err
}

// prepared is everything up needs from the cache.
type prepared struct {
	source, components, runtime string
	images                      []string
}

// bin names a component's binary.
func (p prepared) bin(name string) string { return filepath.Join(p.components, name) }

// prepare builds and unpacks what is missing, and does nothing when all is there.
func prepare(ctx context.Context, a *app) (p prepared, err error) {
	if p.source, err = build.Source(); err != nil {
		return p, err
	}
	if p.components, err = build.Components(ctx, a.log, p.source, a.cache); err != nil {
		return p, err
	}
	if p.runtime, err = build.ContainerRuntime.Prepare(ctx, a.log, a.cache); err != nil {
		return p, err
	}
	if _, err = build.IngressProxy.Prepare(ctx, a.log, a.cache); err != nil {
		return p, err
	}
	p.images, err = build.Images(ctx, p.source, a.cache)
	return p, err
}
