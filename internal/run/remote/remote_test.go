package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/run/exit"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
	"lapse/timeline"
)

// fetching returns a fetcher of a run's recording that breaks off after this number of bytes; 0: never.
func fetching(t *testing.T, run *runtest.HeldRun, bytes int64) fetcher {
	return func(ctx context.Context, _ *deploy.Run, have io.Reader, w io.Writer) (deploy.Retrieved, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		server := httptest.NewServer(agent.NewServer(run, nil).Handler)
		defer func() { server.CloseClientConnections(); server.Close() }()
		client := agent.NewClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
		})
		defer client.Close()
		if bytes > 0 {
			w = &breaking{w: w, left: bytes, end: func() { cancel(errors.New("Ctrl-C")) }}
		}
		receipt, err := client.Continue(ctx, have, w)
		if err == nil {
			err = w.(deploy.Keeper).Keep(receipt)
		}
		if err != nil {
			return deploy.Retrieved{}, err
		}
		return deploy.Retrieved{From: deploy.FromAgent, Receipt: receipt}, nil
	}
}

// A breaking writer takes left bytes, and then calls end.
type breaking struct {
	w    io.Writer
	left int64
	end  func()
}

func (b *breaking) Write(p []byte) (int, error) {
	n, err := b.w.Write(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		b.end()
		return n, errors.New("interrupted")
	}
	return n, err
}

func TestWhatRetrieveHasFetchedIsKeptAndContinued(t *testing.T) {
	run := runtest.NewHeldRun(t)
	run.Requests(0, 300)
	run.End(300)
	whole, err := os.ReadFile(filepath.Join(run.Dir, saved.FactsFile))
	if err != nil {
		t.Fatal(err)
	}
	job := &deploy.Run{Namespace: "shop", Name: "x7k2p"}
	dir := filepath.Join(t.TempDir(), "run")
	part := filepath.Join(dir, saved.PartialFile)
	for _, bytes := range []int{100, len(whole) - 200} {
		var said strings.Builder
		err := Retrieve(t.Context(), job, fetching(t, run, int64(bytes)), dir, saved.Output{Format: "table"}, io.Discard, &said)
		if err == nil || !strings.Contains(said.String(), "lapse retrieve -n shop x7k2p --out "+dir) {
			t.Errorf("after %d bytes: %v, and the user reads %q", bytes, err, said.String())
		}
		if kept, err := os.ReadFile(part); err != nil || !slices.Equal(kept, whole[:len(kept)]) || len(kept) < bytes {
			t.Fatalf("%d of %d bytes are kept: %v", len(kept), bytes, err)
		}
	}
	if err := Retrieve(t.Context(), job, fetching(t, run, 0), dir, saved.Output{Format: "table"}, io.Discard, io.Discard); exit.CodeOf(err) == exit.Internal {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, saved.FactsFile)); err != nil || !slices.Equal(got, whole) {
		t.Errorf("%d bytes came of %d: %v", len(got), len(whole), err)
	}
	if _, err := os.Stat(part); err == nil {
		t.Error("the part is still there beside the whole")
	}
}

func TestRetrieveDoesNotTouchWhatIsNotItsOwn(t *testing.T) {
	other, run := runtest.NewHeldRun(t), runtest.NewHeldRun(t)
	other.Requests(0, 10)
	run.Requests(0, 300)
	run.End(300)
	for _, test := range []struct{ name, id string }{{"a part of another run", "y8l3q"}, {"a part that differs", "x7k2p"}} {
		dir := t.TempDir()
		before, err := os.ReadFile(filepath.Join(other.Dir, saved.FactsFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, saved.PartialFile), before, 0o644); err != nil {
			t.Fatal(err)
		}
		err = Retrieve(t.Context(), &deploy.Run{Namespace: "shop", Name: test.id}, fetching(t, run, 0), dir, saved.Output{Format: "table"}, io.Discard, io.Discard)
		if err == nil || hint.Of(err) == "" {
			t.Errorf("%s: %v", test.name, err)
		}
		if after, _ := os.ReadFile(filepath.Join(dir, saved.PartialFile)); !slices.Equal(after[:len(before)], before) {
			t.Errorf("%s was changed", test.name)
		}
		if _, err := os.Stat(filepath.Join(dir, saved.FactsFile)); err == nil {
			t.Errorf("%s passes for a whole run", test.name)
		}
	}
}

func TestStatusSaysWhatARunIsDoing(t *testing.T) {
	for _, test := range []struct {
		status agent.Status
		err    error
		want   string
	}{
		{agent.Status{Phase: "measuring", Now: 12345 * time.Millisecond}, nil, "measuring, for 12 s so far"},
		{agent.Status{Phase: timeline.PhaseEnded}, nil, "ended, holds its result"},
		{agent.Status{Phase: timeline.PhaseEnded, Detail: "stopped by `lapse stop`"}, nil, "ended (stopped by `lapse stop`), holds its result"},
		{agent.Status{}, &agent.GoneError{Pod: "lapse-x7k2p-abcde", Detail: "ended with exit code 3", Ended: true}, "its Pod ended with exit code 3"},
		{agent.Status{}, errors.New("no route"), "its Pod runs, and does not answer: it begins, or ends"},
		{agent.Status{}, &deploy.NotStartedError{WaitsFor: "Pod x to be scheduled"}, "not started yet: it waits for Pod x to be scheduled"},
	} {
		if got := stateOfPod(test.status, test.err); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// A stoppableRun is a run that can be asked to settle.
type stoppableRun struct {
	*runtest.HeldRun
	settled string
}

func (r *stoppableRun) Settle(reason string) error { r.settled = reason; return nil }

func TestStopEndsARunAndSaysHowToFetchIt(t *testing.T) {
	run := &stoppableRun{HeldRun: runtest.NewHeldRun(t)}
	server := httptest.NewServer(agent.NewServer(run, nil).Handler)
	defer func() { server.CloseClientConnections(); server.Close() }()
	client := agent.NewClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
	defer client.Close()
	for _, want := range []string{"settles and ends", "had ended already"} {
		var said strings.Builder
		if err := Stop(t.Context(), client, &deploy.Run{Namespace: "shop", Name: "lapse-x7k2p"}, &said); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(said.String(), want) || !strings.Contains(said.String(), "lapse retrieve -n shop lapse-x7k2p") {
			t.Errorf("the user reads %q", said.String())
		}
		if run.settled != "stopped by `lapse stop`" {
			t.Errorf("the run was asked %q", run.settled)
		}
		if want == "settles and ends" {
			run.Requests(0, 30)
			run.End(30)
		}
	}
}

func TestAVerdictAloneStillSaysTheExitCode(t *testing.T) {
	for verdict, want := range map[string]int{`{"result":"pass","exitCode":0}`: 0, `{"exitCode":3}`: 3, `{}`: 1, `"x"`: 1, ``: 1} {
		if got := verdictCode(json.RawMessage(verdict)); got != want {
			t.Errorf("%s: %d, want %d", verdict, got, want)
		}
	}
}
