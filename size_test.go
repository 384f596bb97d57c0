package lapse

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lapse/internal/layer"
)

// mostBytes is the most that the program may take, built as a release is: stripped, for linux/amd64. The goal is 30 MB:
// lower it with each saving. rakyll/hey takes 4.5 MB: it brings text/template, which calls methods by name, so that the
// linker keeps every exported method of every type. prometheus/client_golang takes 0.8 MB, the messages of
// OpenTelemetry take 0.2 MB, the guard and what it shares 1.4 MB, the client of EvictionRequests 0.3 MB.
const mostBytes = 40_180_000

func TestTheProgramIsSmall(t *testing.T) {
	layer.Real(t)
	lookAtSources(t)
	program := filepath.Join(t.TempDir(), "lapse")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./cmd/lapse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
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
