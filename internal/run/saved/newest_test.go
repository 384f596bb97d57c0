package saved

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestNewestIsTheRunThatWasWrittenLast(t *testing.T) {
	dir := t.TempDir()
	if _, err := Newest(dir); err == nil {
		t.Error("a directory without runs has a newest one")
	}
	now := time.Now()
	for name, age := range map[string]time.Duration{"a": time.Hour, "b": time.Minute, "c": 2 * time.Hour} {
		run := filepath.Join(dir, name)
		if err := os.Mkdir(run, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(run, FactsFile)
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "no-run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := Newest(dir); err != nil || got != filepath.Join(dir, "b") {
		t.Errorf("%q, %v; want b", got, err)
	}
	if _, err := Newest(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is not there has a newest run")
	}
}
