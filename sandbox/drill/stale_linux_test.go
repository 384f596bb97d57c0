package drill

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRoutesAreStaleUntilTheOtherCommandHasEnded(t *testing.T) {
	proxy := exec.Command("sleep", "60")
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = proxy.Process.Kill()
		_ = proxy.Wait() // it was killed
	})
	c := &Cluster{Dir: t.TempDir()}
	state := fmt.Sprintf(`{"processes": [{"name": "kube-proxy-node1", "pid": %d}, {"name": "kubelet-node1", "pid": 1}]}`, proxy.Process.Pid)
	if err := os.WriteFile(filepath.Join(c.Dir, "sandbox.json"), []byte(state), 0o644); err != nil {
		t.Fatal(err)
	}
	status, seen := fmt.Sprintf("/proc/%d/status", proxy.Process.Pid), filepath.Join(c.Dir, "seen")
	words, resume, err := c.StaleRoutes(
		fmt.Sprintf("sh -c 'until grep -q stopped %s; do :; done; touch %s; exit 7'", status, seen),
		fmt.Sprintf("until test -e %s; do :; done", seen), "node1")
	if err != nil {
		t.Fatal(err)
	}
	defer resume()
	err = exec.CommandContext(t.Context(), words[0], words[1:]...).Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("%v, want the command's exit code 7", err)
	}
	now, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(now), "stopped") {
		t.Error("it still stands still")
	}
	if _, _, err := c.StaleRoutes("true", "true", "node2"); err == nil {
		t.Error("node2 has no kube-proxy")
	}
}
