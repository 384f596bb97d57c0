package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Under another path everything compiles, tests included, and no file names the old path.
func TestModuleIsRenamed(t *testing.T) {
	root := t.TempDir()
	command := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	command("../..", "git", "clone", "--quiet", "--shared", ".", root)
	if err := rename(root, "example.org/tools/lapse"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "sandbox", "loadgen/bench", "tools", "tools/helm", "tools/argo", "tools/flagger", "tools/s3"} {
		command(filepath.Join(root, dir), "go", "vet", "-mod=mod", "./...")
	}
	command(root, "go", "test", "-short", ".") // the packages are where the layout test looks for them
	if version := command(root, "make", "-s", "bin/lapse", "VERSION=v1.2.3") + command(root, "bin/lapse", "--version"); !strings.Contains(version, "v1.2.3") {
		t.Errorf("the version is %q: the linker's flags name no variable of the module", version)
	}
	if text, err := os.ReadFile(filepath.Join(root, "sandbox/go.mod")); err != nil || !strings.HasPrefix(string(text), "module example.org/tools/lapse/sandbox\n") {
		t.Errorf("sandbox/go.mod: %v, %.60q", err, text)
	}
}

func TestModuleWantsAPath(t *testing.T) {
	for _, path := range []string{"", "lapse", "https://github.com/you/lapse", "github.com/you/"} {
		if err := rename("../..", path); err == nil || !strings.Contains(err.Error(), "such as github.com/you/lapse") {
			t.Errorf("%q: %v", path, err)
		}
	}
}
