//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

// Two watch a run that a third has applied; both see its targets, and its result is there afterwards.
func TestAttachWatchesAndLeavesTheResult(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	name := apply(t, c, w, "--duration=20s", "--rate=100", "--fail-if=failed>0")
	first, second := attach(t, c, name, w.Namespace), attach(t, c, name, w.Namespace)
	for _, onlooker := range []*onlooker{first, second} {
		until(t, "the page shows the target web new", func() bool { return onlooker.knows(t, "target/web new") },
			func() string { return onlooker.url })
	}
	for _, onlooker := range []*onlooker{first, second} {
		if err := onlooker.cmd.Wait(); err != nil || !strings.Contains(onlooker.stdout.String(), "\n measured  ") {
			t.Errorf("lapse attach: %v\n%s", err, onlooker.stdout.String())
		}
	}
	dir := filepath.Join(t.TempDir(), "fetched")
	t.Log(lapse(t, c, "retrieve", name, "-n", w.Namespace, "--out", dir))
	if _, err := os.Stat(filepath.Join(dir, "facts.lapse")); err != nil {
		t.Errorf("the recording was not there any more: %v", err)
	}
	lapse(t, c, "delete", name, "-n", w.Namespace)
}

// An onlooker is a `lapse attach` under way.
type onlooker struct {
	cmd    *exec.Cmd
	url    string
	stdout bytes.Buffer
}

func attach(t *testing.T, c *drill.Cluster, run, namespace string) *onlooker {
	t.Helper()
	o := &onlooker{cmd: exec.CommandContext(t.Context(), c.Lapse, "attach", run,
		"-n", namespace, "--dashboard=127.0.0.1:0")}
	o.cmd.Env, o.cmd.Stdout = c.Env(), &o.stdout
	talk, stderr := io.Pipe()
	o.cmd.Stderr = stderr
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(talk)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "page: "); ok {
			o.url = url
			go io.Copy(t.Output(), talk)
			return o
		}
		t.Log(lines.Text())
	}
	t.Fatal("lapse attach serves no page")
	return nil
}

func (o *onlooker) knows(t *testing.T, key string) bool {
	t.Helper()
	response, err := http.Get(o.url + "api/v1/snapshot")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var snapshot struct{ Entries map[string]json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&snapshot); err != nil {
		t.Fatal(err)
	}
	_, ok := snapshot.Entries[key]
	return ok
}
