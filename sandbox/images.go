package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"lapse/sandbox/build"
	"lapse/sandbox/command"
	"lapse/sandbox/problem"
)

func runLoad(ctx context.Context, a *app, args []string) error {
	if len(args) != 1 {
		return problem.Errorf("usage: sandbox load IMAGE.tar, or sandbox load debian:PACKAGE")
	}
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	image := args[0]
	if strings.HasPrefix(image, "debian:") {
		if image, err = build.DebianImage(ctx, a.log, a.cache, image); err != nil {
			return err
		}
	}
	if _, err := os.Stat(image); err != nil {
		return problem.Errorf("no image: %v", err)
	}
	runtime, err := build.ContainerRuntime.In(a.cache)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := s.importEverywhere(ctx, runtime, image); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s is on %d nodes (%.1f s)\n", filepath.Base(args[0]), s.Nodes, time.Since(begin).Seconds())
	return nil
}

func (s *sandbox) importEverywhere(ctx context.Context, runtime, tar string) error {
	var tasks []func(context.Context) error
	for _, n := range s.nodes() {
		tasks = append(tasks, func(ctx context.Context) error { return s.importImage(ctx, runtime, n, tar) })
	}
	return parallel(ctx, tasks...)
}

// importImage hands the tar to ctr as a stream: the node has its own /var and /run, and might not see the file.
func (s *sandbox) importImage(ctx context.Context, runtime string, n node, tar string) error {
	containerd, ok := s.process("containerd-" + n.Name)
	if !ok || !containerd.alive() {
		return problem.Errorf("containerd of %s is not running: `sandbox down`, then `sandbox up`", n.Name)
	}
	file, err := os.Open(tar)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, s.self(), "enter", "--beside", fmt.Sprint(containerd.PID), "--",
		filepath.Join(runtime, "usr/bin/ctr"), "--namespace", "k8s.io", "images", "import", "-")
	cmd.Stdin = file
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s on %s: %w: %s", filepath.Base(tar), n.Name, err, command.LastLines(string(out), 3))
	}
	return nil
}

// parallel runs all tasks, cancels the rest at the first failure, and waits for every one.
func parallel(ctx context.Context, tasks ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, task := range tasks {
		all.Go(func() {
			if err := task(ctx); err != nil {
				cancel(err) // only the first one stays
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
