package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDebianAndItsFamilyAreRecognised(t *testing.T) {
	for text, want := range map[string]string{
		"ID=debian\nVERSION_ID=\"12\"\n":                    "debian-12",
		"ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n": "ubuntu-24.04",
		"ID=fedora\nVERSION_ID=41\n":                        "",
	} {
		if got, err := parseRelease([]byte(text)); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}

func TestInterruptedBuildLeavesNoBinary(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module x\n\ngo 1.26\n"), 0o644)
	os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\nfunc main() {}\n"), 0o644)
	target := filepath.Join(dir, "out", "x")
	os.Mkdir(filepath.Dir(target), 0o755)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := goBuild(ctx, dir, target, ".", plainFlags); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled build: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(target)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := goBuild(t.Context(), dir, target, ".", plainFlags); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(target)); len(left) != 1 || left[0].Name() != "x" {
		t.Errorf("a build leaves %v", left)
	}
}

func TestAnotherVersionIsAnotherDirectory(t *testing.T) {
	again := digest("a")
	if digest("a", "bc") == digest("ab", "c") || digest("a") != again {
		t.Error("digest does not stand for its parts")
	}
}

func TestSourceIsFound(t *testing.T) {
	dir, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "coredns", "main.go")); err != nil {
		t.Error(err)
	}
}

func TestVersionInBinariesIsTheOneInGoMod(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "k8s.io/kubernetes "+KubernetesVersion+" ") {
		t.Errorf("go.mod does not require %s", KubernetesVersion)
	}
	for _, c := range components {
		if c.module == "." && !strings.Contains(string(mod), "\t"+c.pkg+"\n") {
			t.Errorf("%s is no tool in go.mod", c.pkg)
		}
	}
}
