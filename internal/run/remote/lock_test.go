package remote

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/run/exit"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
)

// claimer is the environment variable by which this test's binary claims a directory until it is killed.
const claimer = "LAPSE_TEST_CLAIM"

func init() {
	if dir := os.Getenv(claimer); dir != "" {
		if _, err := saved.ClaimDir(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("claimed")
		select {}
	}
}

func TestADirectoryHasOneWriterUntilThatIsKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	other := exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), claimer+"="+dir)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "claimed\n" {
		t.Fatalf("the other process says %q, %v", said, err)
	}
	refused := func(name string, err error) {
		t.Helper()
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "another lapse writes into "+dir) || !strings.Contains(hint.Of(err), "--out") {
			t.Errorf("%s: %v, hint %q", name, err, hint.Of(err))
		}
	}
	_, err = saved.ClaimDir(dir)
	refused("claim", err)
	fetch := func(context.Context, *deploy.Run, io.Reader, io.Writer) (deploy.Retrieved, error) {
		t.Error("something is fetched")
		return deploy.Retrieved{}, nil
	}
	refused("retrieve", Retrieve(t.Context(), &deploy.Run{Namespace: "shop", Name: "x7k2p"}, fetch, dir, saved.Output{Format: "table"}, io.Discard, io.Discard))
	_, _, err = saved.BeginRecording(dir, func(string) (int, error) { t.Error("a recording is begun"); return 0, nil })
	refused("run", err)

	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	release, err := saved.ClaimDir(dir)
	if err != nil {
		t.Fatalf("the lock of a killed process stays: %v", err)
	}
	release()
}

func TestOfTwoThatRetrieveOneRunOnlyTheFirstWrites(t *testing.T) {
	run := runtest.NewHeldRun(t)
	run.Requests(0, 300)
	run.End(300)
	job := &deploy.Run{Namespace: "shop", Name: "x7k2p"}
	dir := filepath.Join(t.TempDir(), "run")
	fetched := fetching(t, run, 0)
	err := Retrieve(t.Context(), job, func(ctx context.Context, r *deploy.Run, have io.Reader, w io.Writer) (deploy.Retrieved, error) {
		if err := Retrieve(ctx, job, fetched, dir, saved.Output{Format: "table"}, io.Discard, io.Discard); exit.CodeOf(err) != exit.Usage {
			t.Errorf("the second ends with %v", err)
		}
		return fetched(ctx, r, have, w)
	}, dir, saved.Output{Format: "table"}, io.Discard, io.Discard)
	if code := exit.CodeOf(err); code != 3 { // failed>0
		t.Errorf("the first ends with %v", err)
	}
	whole, _ := os.ReadFile(filepath.Join(run.Dir, saved.FactsFile))
	if got, err := os.ReadFile(filepath.Join(dir, saved.FactsFile)); err != nil || !slices.Equal(got, whole) {
		t.Errorf("%d bytes came of %d: %v", len(got), len(whole), err)
	}
}

// What is compared with the Pod's recording is the file, not what was sent.
func TestThePodIsKeptWhereTheFileIsNotItsRecording(t *testing.T) {
	run := runtest.NewHeldRun(t)
	run.Requests(0, 300)
	run.End(300)
	dir := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(dir, saved.PartialFile)
	fetched := fetching(t, run, 0)
	fetch := func(ctx context.Context, r *deploy.Run, have io.Reader, w io.Writer) (deploy.Retrieved, error) {
		return fetched(ctx, r, have, disturbed{w.(*partial)})
	}
	err := Retrieve(t.Context(), &deploy.Run{Namespace: "shop", Name: "x7k2p"}, fetch, dir, saved.Output{Format: "table"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), path+" is damaged") || hint.Of(err) != "remove it, and try again" {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	if _, err := os.Stat(filepath.Join(dir, saved.FactsFile)); err == nil {
		t.Error("a damaged recording has the name of a whole one")
	}
}

// The Pod's log gives the result, but whoever keeps the recording must know that it is damaged.
func TestADamagedPartIsNamedWhereTheResultCameFromTheLog(t *testing.T) {
	timeline, err := deploy.ParseTimeline(bytes.NewReader(runtest.Logged(t, 300)))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, saved.PartialFile)
	if err := os.WriteFile(path, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	fetch := func(context.Context, *deploy.Run, io.Reader, io.Writer) (deploy.Retrieved, error) {
		return deploy.Retrieved{From: deploy.FromLog, Timeline: timeline, Failed: []error{fmt.Errorf("fetch: %w", &agent.ChecksumError{})}}, nil
	}
	var said strings.Builder
	job := &deploy.Run{Namespace: "shop", Name: "x7k2p"}
	if err := Retrieve(t.Context(), job, fetch, dir, saved.Output{Format: "table"}, io.Discard, &said); exit.CodeOf(err) != 3 { // failed>0
		t.Errorf("%v, want the exit code of the run", err)
	}
	if want := path + " is damaged, or a part of another run: the result is from the Pod's log. "; !strings.HasPrefix(said.String(), want) {
		t.Errorf("it says %q, want %q first", said.String(), want)
	}
}

// A disturbed part is written to by something else before it is kept.
type disturbed struct{ *partial }

func (d disturbed) Write(p []byte) (int, error) {
	_, _ = d.File.WriteString("x")
	return d.partial.Write(p)
}
