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
)

const (
	pauseImage    = "docker.io/library/lapse-pause:dev"
	workloadImage = "lapse-workload:dev"
)

// buildImages writes the images every node has from the start, again only when their source changed.
func buildImages(ctx context.Context, source, cache string) ([]string, error) {
	key, err := imagesKey(source)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "images-"+key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var tars []string
	for name, image := range map[string]string{"pause": pauseImage, "workload": workloadImage} {
		tar := filepath.Join(dir, name+".tar")
		tars = append(tars, tar)
		if _, err := os.Stat(tar); err == nil {
			continue
		}
		if err := buildImage(ctx, source, filepath.Join(dir, name), name, image); err != nil {
			return nil, err
		}
	}
	return tars, nil
}

// buildImage makes binary and image of ./NAME; the image is written by the repository's own deploy/mkimage.
func buildImage(ctx context.Context, source, binary, name, image string) error {
	if err := goBuild(ctx, source, binary, "./"+name, plainFlags); err != nil {
		return err
	}
	part := binary + ".tar.part"
	mkimage := command(ctx, "", "go", "-C", filepath.Dir(source), "run", "./deploy/mkimage",
		"-name", image, "-entrypoint", "/"+name, "-o", part, binary)
	if mkimage != nil {
		return mkimage
	}
	return os.Rename(part, binary+".tar")
}

func imagesKey(source string) (string, error) {
	var parts []string
	for _, pattern := range []string{"workload/*.go", "pause/*.go", "../deploy/mkimage/*.go", "go.mod", "go.sum"} {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			parts = append(parts, file, string(data))
		}
	}
	return digest(parts...), nil
}

func runLoad(ctx context.Context, a *app, args []string) error {
	if len(args) != 1 {
		return problemf("usage: sandbox load IMAGE.tar, or sandbox load debian:PACKAGE")
	}
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	image := args[0]
	if strings.HasPrefix(image, "debian:") {
		if image, err = debianImage(ctx, a.log, a.cache, image); err != nil {
			return err
		}
	}
	if _, err := os.Stat(image); err != nil {
		return problemf("no image: %v", err)
	}
	runtime, err := containerRuntime.in(a.cache)
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
		return problemf("containerd of %s is not running: `sandbox down`, then `sandbox up`", n.Name)
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
		return fmt.Errorf("import %s on %s: %w: %s", filepath.Base(tar), n.Name, err, lastLines(string(out), 3))
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
