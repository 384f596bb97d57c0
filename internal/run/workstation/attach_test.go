package workstation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/layer"
	"lapse/internal/run/exit"
	"lapse/internal/run/runtest"
	"lapse/timeline"
)

var watchedRun = &deploy.Run{Namespace: "shop", Name: "lapse-x7k2p"}

// A watch is one `lapse attach` under way.
type watch struct {
	url    string
	stop   context.CancelFunc
	result chan error
	stdout bytes.Buffer
}

func startWatch(t *testing.T, client *agent.Client) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{stop: cancel, result: make(chan error, 1)}
	talk, stderr := io.Pipe()
	go func() {
		w.result <- Attach(ctx, client, watchedRun, "127.0.0.1:0", &w.stdout, stderr)
		stderr.Close()
	}()
	t.Cleanup(cancel)
	line := make([]byte, 200)
	n, err := talk.Read(line)
	if err != nil {
		t.Fatalf("no page: %v, %v", err, <-w.result)
	}
	go io.Copy(io.Discard, talk)
	w.url = strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "page: "))
	return w
}

// entries returns the keys of the page that begin with prefix.
func (w *watch) entries(t *testing.T, prefix string) []string {
	t.Helper()
	response, err := http.Get(w.url + "api/v1/snapshot")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var snapshot struct{ Entries map[string]json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&snapshot); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for key := range snapshot.Entries {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// see waits until the page shows a window.
func (w *watch) see(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(runtest.Patience)
	for len(w.entries(t, "window/")) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the page shows no window")
		}
	}
}

func TestSeveralMayWatchARunAndNoneChangesIt(t *testing.T) {
	layer.Real(t)
	run := runtest.NewHeldRun(t)
	agents := run.Serve()
	first, second := startWatch(t, agents()), startWatch(t, agents())
	if seen := first.entries(t, "window/"); len(seen) != 0 {
		t.Errorf("windows %q before anything failed", seen)
	}
	run.Requests(0, 90)
	first.see(t)
	second.see(t)

	second.stop() // one has seen enough; the other goes on
	if err := <-second.result; err != nil || second.stdout.Len() > 0 {
		t.Errorf("an interrupted onlooker ended with %v and %q", err, second.stdout.String())
	}
	run.Requests(90, 120)
	run.End(120)
	if err := <-first.result; err != nil {
		t.Errorf("after the run's end: %v", err)
	}
	if out := first.stdout.String(); !strings.Contains(out, "FAIL") || !strings.Contains(out, "failed > 0") {
		t.Errorf("the summary reads\n%s", out)
	}

	// The result is still there, and there is nothing more to watch.
	err := Attach(t.Context(), agents(), watchedRun, "127.0.0.1:0", io.Discard, io.Discard)
	if _, usage := errors.AsType[exit.UsageError](err); usage || !strings.Contains(hint.Of(err), "`lapse retrieve -n shop lapse-x7k2p`") {
		t.Errorf("an ended run: %v, hint %q, usage error: %v", err, hint.Of(err), usage)
	}
}

func TestAPageThatCannotBeServedIsRefused(t *testing.T) {
	run := runtest.NewHeldRun(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = Attach(t.Context(), run.Serve()(), watchedRun, taken.Addr().String(), io.Discard, io.Discard)
	if _, ok := errors.AsType[exit.UsageError](err); !ok || !strings.Contains(hint.Of(err), "another --dashboard") {
		t.Errorf("an address that is taken: %v", err)
	}
}

// A run that waits for a disruption has no clock yet: whoever attaches to it waits as well, and then sees the run.
func TestAttachWaitsWithAnArmedRun(t *testing.T) {
	layer.Real(t)
	run := runtest.NewHeldRun(t)
	run.Enter(timeline.PhaseArmed)
	talk, stderr := io.Pipe()
	var stdout bytes.Buffer
	result := make(chan error, 1)
	go func() {
		result <- Attach(t.Context(), run.Serve()(), watchedRun, "", &stdout, stderr)
		stderr.Close()
	}()
	lines := bufio.NewScanner(talk)
	if !lines.Scan() || lines.Text() != deploy.Armed {
		t.Errorf("it says %q", lines.Text())
	}
	go io.Copy(io.Discard, talk)
	run.Enter(timeline.PhaseMeasuring)
	run.Requests(0, 30)
	run.End(30)
	if err := <-result; err != nil || !strings.Contains(stdout.String(), "10 of 30 requests failed") {
		t.Errorf("%v: %s", err, &stdout)
	}
}
