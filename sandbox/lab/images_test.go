package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

// A mirror that does not answer keeps only those scenarios from being played that need its packages.
func TestAnImageThatCannotBeMadeIsNamedByItsScenarios(t *testing.T) {
	sandbox := filepath.Join(t.TempDir(), "sandbox")
	if err := os.WriteFile(sandbox, []byte("#!/bin/sh\ntest \"$4\" != debian:caddy\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	caddy, nginx, plain := Scenario{Manifest: "image: debian:caddy"}, Scenario{Manifest: "image: debian:nginx-light"},
		Scenario{Manifest: "image: lapse-workload:dev"}
	l := &laboratory{cluster: &drill.Cluster{Dir: t.TempDir()}}
	l.Sandbox = sandbox
	l.loadImages(t.Context(), []Scenario{caddy, nginx, plain, caddy})
	if err := l.lacks(caddy); err == nil || !strings.Contains(err.Error(), "image debian:caddy is not on the nodes") {
		t.Errorf("caddy: %v", err)
	}
	for _, s := range []Scenario{nginx, plain} {
		if err := l.lacks(s); err != nil {
			t.Errorf("%s: %v", s.Manifest, err)
		}
	}
}
