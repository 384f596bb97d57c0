package outer

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Whatever the ingress ends for, the process that it has started does not outlive it.
func TestProxyEndsItsProcessWhenItsStateCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	p := &proxy{ProxyConfig: ProxyConfig{Program: program, Dir: dir}, state: filepath.Join(dir, "missing", "state"),
		log: slog.New(slog.DiscardHandler)}
	if err := p.serve(t.Context(), nil, theirs); !os.IsNotExist(err) {
		t.Errorf("it ended with %v", err)
	}
	theirs.Close()
	if err := ours.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(ours); err != nil { // which ends when nobody has the other end any more
		t.Errorf("the process still runs: %v", err)
	}
}
