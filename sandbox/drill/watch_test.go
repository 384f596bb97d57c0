package drill

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl writes a stand-in for kubectl that prints what it is told, and then does so.
func kubectl(t *testing.T, prints, then string) *Cluster {
	t.Helper()
	c := &Cluster{Dir: t.TempDir(), Log: t.Output()}
	path := filepath.Join(c.Dir, "bin", "kubectl")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+prints+"'\n"+then+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

const twoChanges = `{"type":"ADDED","object":{"metadata":{"name":"a"}}}
{"type":"DELETED","object":{"metadata":{"name":"a"}}}`

func TestAWatchIsToldEachChange(t *testing.T) {
	changes := make(chan Change, 2)
	end, err := kubectl(t, twoChanges, "exec sleep 60").Watch(t.Context(), func(c Change) { changes <- c }, "pods")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ADDED", "DELETED"} {
		if c := <-changes; c.Type != want || !strings.Contains(string(c.Object), `"a"`) || c.Seen.IsZero() {
			t.Errorf("%s %s, want %s", c.Type, c.Object, want)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestAWatchThatEndsByItselfIsAnError(t *testing.T) {
	c := kubectl(t, "", "exit 3")
	if _, err := c.Watch(t.Context(), func(Change) {}, "pods", "-A"); err == nil ||
		!strings.Contains(err.Error(), "kubectl get pods -A --watch") ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("it said nothing: %v", err)
	}
	if _, err := kubectl(t, `{"type":`, "").Watch(t.Context(), func(Change) {}, "pods"); err == nil ||
		!strings.Contains(err.Error(), "read what kubectl prints") {
		t.Errorf("it said half of something: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kubectl(t, "", "exec sleep 60").Watch(ctx, func(Change) {}, "pods"); err == nil {
		t.Error("it was not to begin")
	}
}
