package integration

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"lapse/internal/layer"
	"lapse/internal/run/runtest"
)

// The command that a run wraps is scheduled as without the run, though the prober asks for short slices.
func TestTheWrappedCommandHasTheUsualSlice(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	server := runtest.StartServer(t)
	var said bytes.Buffer
	cmd := exec.Command("lapse", "run", server.URL(), "--baseline=500ms", "--settle=0", "--out="+t.TempDir()+"/run", "--",
		"sh", "-c", "grep se.slice /proc/self/sched || echo se.slice unknown")
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 4 { // 4: on a machine too busy to measure
		t.Fatalf("%v\n%s", err, said.String())
	}
	short := regexp.MustCompile(`se\.slice\s*:\s*100000\b`) // in nanoseconds: what the prober asks for
	if text := said.String(); !strings.Contains(text, "se.slice") || short.MatchString(text) {
		t.Errorf("the command has the prober's slice, or did not tell:\n%s", text)
	}
}
