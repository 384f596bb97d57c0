//go:build e2e

package e2e

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// A drain can delete the Pod while it holds its result: it has its grace to hand it over.
func TestResultOfADeletedPodIsRetrieved(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 1})
	job := apply(t, c, w, "--duration=2s", "--rate=100", "--hold=5m")
	measuring(t, c, w, job) // kubectl follows no log of a container that is being created
	held := exec.CommandContext(t.Context(), filepath.Join(c.Dir, "bin", "kubectl"), "-n", w.Namespace, "logs",
		"-f", "--pod-running-timeout=2m", "job/"+job)
	held.Env = c.Env()
	log, err := held.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(log); lines.Scan() && !strings.Contains(lines.Text(), "END LAPSE TIMELINE"); {
	}
	go io.Copy(io.Discard, log)
	if _, err := c.Kubectl(t.Context(), "-n", w.Namespace, "delete", "pod",
		"-l", "app.kubernetes.io/managed-by=lapse", "--wait=false"); err != nil {
		t.Fatal(err)
	}
	// It stays, though it has nothing to do but to be asked.
	if out, err := c.Kubectl(t.Context(), "-n", w.Namespace, "wait", "--for=delete", "pod",
		"-l", "app.kubernetes.io/managed-by=lapse", "--timeout=5s"); err == nil {
		t.Fatalf("the Pod has gone with its result: %s", out)
	}
	dir := filepath.Join(t.TempDir(), "fetched")
	t.Log(lapse(t, c, "retrieve", job, "-n", w.Namespace, "--out", dir))
	timeline, err := drill.ReadTimeline(dir)
	if err != nil || timeline.Verdict.Sent == 0 || timeline.Run.Aborted != "" {
		t.Errorf("verdict %+v, aborted %q, %v: want the whole run", timeline.Verdict, timeline.Run.Aborted, err)
	}
	held.Wait()
}

// A workstation that was suspended finds the Pod ended: its log still has the result.
func TestWorkstationStoppedPastTheHoldGetsItsResult(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 1})
	dir := filepath.Join(t.TempDir(), "run")
	cmd := c.Command(t.Context(), "run", "svc/web", "-n", w.Namespace, "--out", dir, "--rate=100", "--duration=6s",
		"--hold=2s", "--min-coverage=1%")
	talk, stderr := io.Pipe()
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGCONT) })
	follows := make(chan bool)
	var read sync.WaitGroup
	read.Go(func() {
		var once sync.Once
		for lines := bufio.NewScanner(talk); lines.Scan(); {
			t.Log(lines.Text())
			if strings.Contains(lines.Text(), "baseline") {
				once.Do(func() { close(follows) })
			}
		}
	})
	defer read.Wait()
	defer stderr.Close()
	select {
	case <-follows:
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not follow the run")
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	if _, err := c.Kubectl(t.Context(), "-n", w.Namespace, "wait", "job", "-l", "app.kubernetes.io/managed-by=lapse",
		"--for=condition=Complete", "--timeout=3m"); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGCONT)
	run, err := cmd.Finish(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(run.Output)
	if r := run.Timeline.Run; r.Aborted != "" || run.ExitCode != 0 || r.Duration < 7*time.Second {
		t.Errorf("aborted %q, exit code %d, duration %v: want the whole run of 7 s, ungated",
			r.Aborted, run.ExitCode, r.Duration)
	}
	nothingLeft(t, c, run)
}
