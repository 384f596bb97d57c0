package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// debianImage finds images of Debian packages in a manifest, such as debian:nginx-light.
var debianImage = regexp.MustCompile(`\bimage: *"?(debian:[a-z0-9._-]+)`)

// images returns the images of Debian packages that a scenario's manifest names.
func (s Scenario) images() (names []string) {
	for _, found := range debianImage.FindAllStringSubmatch(s.Manifest, -1) {
		if !slices.Contains(names, found[1]) {
			names = append(names, found[1])
		}
	}
	return names
}

// imagesLimit is how long making and loading all images may take, where Debian's mirror is slow.
const imagesLimit = 10 * time.Minute

// loadImages puts the images of Debian packages that the scenarios need on every node, before any of them is played.
// Where Debian's mirror does not answer, the scenarios that need the image cannot be played, and the others are.
func (l *laboratory) loadImages(ctx context.Context, scenarios []Scenario) {
	ctx, cancel := context.WithTimeoutCause(ctx, imagesLimit,
		fmt.Errorf("the images took longer than %v", imagesLimit))
	defer cancel()
	l.missing = map[string]error{}
	tried := map[string]bool{}
	for _, s := range scenarios {
		for _, name := range s.images() {
			if tried[name] {
				continue
			}
			tried[name] = true
			load := exec.CommandContext(ctx, l.Sandbox, "--dir", l.cluster.Dir, "load", name)
			load.Stdout, load.Stderr = os.Stderr, os.Stderr
			load.Cancel = func() error { return load.Process.Signal(syscall.SIGTERM) } // it ends apt-get and tidies up
			load.WaitDelay = 10 * time.Second
			if err := load.Run(); err != nil {
				l.missing[name] = fmt.Errorf("image %s is not on the nodes: sandbox load %s: %w",
					name, name, cmp.Or(context.Cause(ctx), err))
			}
		}
	}
}

// lacks returns why an image that the scenario needs is not on the nodes.
func (l *laboratory) lacks(s Scenario) error {
	for _, name := range s.images() {
		if err := l.missing[name]; err != nil {
			return err
		}
	}
	return nil
}
