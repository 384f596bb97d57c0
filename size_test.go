package lapse

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lapse/internal/layer"
)

// mostBytes is the most that the program may take, built as a release is: stripped, for linux/amd64. The goal is
// 30 MB: lower it with each saving.
const mostBytes = 31_600_000

// A program in which a method may be called by a name that is not a constant keeps every exported method of every type
// that it can reach. That cost 4.5 MB of 35 when text/template was used for a page's list, for help and by a library.
func TestTheProgramIsSmall(t *testing.T) {
	layer.Real(t)
	lookAtSources(t)
	program := filepath.Join(t.TempDir(), "lapse")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -dumpdep", "-o", program, "./cmd/lapse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	reaches, err := build.CombinedOutput() // "CALLER -> CALLED <ReflectMethod>", a line for each
	if err != nil {
		t.Fatalf("%v\n%s", err, reaches[:min(len(reaches), 2000)])
	}
	for line := range strings.Lines(string(reaches)) {
		if caller, called, _ := strings.Cut(line, " -> "); strings.Contains(called, " <ReflectMethod>") {
			t.Errorf("%s calls methods by name, and %s reaches it: the linker keeps all methods",
				strings.TrimSpace(called), caller)
		}
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if size := info.Size(); size > mostBytes {
		t.Errorf("the program takes %d bytes, and may take %d: `go tool nm -size -sort size` of a build without -s lists what it holds", size, mostBytes)
	}
}

// lookAtSources looks at each file that the program is made of: the go command keeps a test's result until a file that
// it looked at changes.
func lookAtSources(t *testing.T) {
	t.Helper()
	sources := []string{"go.mod"}
	for _, files := range goList(t, `{{.ImportPath}} {{.Dir}} {{join .GoFiles " "}}`) {
		for _, file := range files[1:] {
			sources = append(sources, filepath.Join(files[0], file))
		}
	}
	for _, file := range sources {
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
	}
}
