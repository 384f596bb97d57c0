package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// The command that a run wraps is scheduled as without the run, though the prober asks for short slices.
func TestTheWrappedCommandHasTheUsualSlice(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	command := []string{"sh", "-c", "grep se.slice /proc/self/sched || echo unknown"}
	usual, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("lapse", append([]string{"run", server.URL(), "--baseline=500ms", "--settle=0", "--out=" + t.TempDir() + "/run", "--"}, command...)...)
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 4 { // 4: on a machine too busy to measure
		t.Fatalf("%v\n%s", err, said.String())
	}
	if want := strings.TrimSpace(string(usual)); !strings.Contains(said.String(), want) {
		t.Errorf("no %q in\n%s", want, said.String())
	}
}
