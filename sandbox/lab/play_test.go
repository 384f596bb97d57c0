package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// noting is a step that says when it is taken, and ends with an error.
func noting(log *[]string, name string, err error) Step {
	return Step{Text: name, do: func(_ context.Context, p *play) error {
		*log = append(*log, name)
		p.undoing(name, func(ctx context.Context) error {
			*log = append(*log, "undo "+name)
			return ctx.Err()
		})
		return err
	}}
}

func TestAStepThatFailsEndsTheScenarioAndAllIsPutRight(t *testing.T) {
	var log []string
	broken := errors.New("broken")
	refused := noting(&log, "refused", broken)
	refused.Try = true
	p := &play{machine: machine{log: io.Discard}}
	done, err := p.steps(t.Context(), []Step{noting(&log, "a", nil), refused,
		noting(&log, "b", broken), noting(&log, "never", nil)})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "b: broken") {
		t.Errorf("error %v", err)
	}
	if done[2].Text != "b" || done[2].Ended.Before(done[2].Began) || !done[3].Began.IsZero() {
		t.Errorf("taken: %+v", done)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.undoAll(cancelled); err != nil { // as after Ctrl-C
		t.Error(err)
	}
	if want := []string{"a", "refused", "b", "undo b", "undo refused", "undo a"}; !slices.Equal(log, want) {
		t.Errorf("%v, want %v", log, want)
	}
}

func TestWhatWasPutRightIsNotPutRightAgain(t *testing.T) {
	var log []string
	p := &play{machine: machine{log: io.Discard}}
	if _, err := p.steps(t.Context(), []Step{noting(&log, "a", nil), noting(&log, "b", nil)}); err != nil {
		t.Fatal(err)
	}
	if was, err := p.undone(t.Context(), "a"); !was || err != nil {
		t.Errorf("was %v, error %v", was, err)
	}
	if was, _ := p.undone(t.Context(), "a"); was {
		t.Error("put right twice")
	}
	if err := p.undoAll(t.Context()); err != nil || !slices.Equal(log, []string{"a", "b", "undo a", "undo b"}) {
		t.Errorf("%v, error %v", log, err)
	}
}

func TestABackgroundStepGoesOnBesideTheNext(t *testing.T) {
	next := make(chan struct{})
	background := Step{Text: "long", Background: true, do: func(ctx context.Context, _ *play) error {
		select {
		case <-next:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	after := Step{Text: "next", do: func(context.Context, *play) error { close(next); return nil }}
	if _, err := (&play{machine: machine{log: io.Discard}}).steps(t.Context(), []Step{background, after}); err != nil {
		t.Error(err)
	}
}

func TestAStoppedProcessIsContinuedAtTheEnd(t *testing.T) {
	child := exec.Command("sleep", "1h")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		child.Process.Kill()
		child.Wait()
	})
	p := &play{machine: machine{log: io.Discard}}
	if err := stopProcess(t.Context(), p, []int{child.Process.Pid}, "sleep"); err != nil {
		t.Fatal(err)
	}
	becomes(t, child.Process.Pid, true)
	if err := p.undoAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	becomes(t, child.Process.Pid, false)
	if err := continueProcess(t.Context(), p, nil, "sleep"); err == nil ||
		!strings.Contains(err.Error(), "sleep was not stopped") {
		t.Errorf("continued twice: %v", err)
	}
}

// becomes waits until a process stands still, or does not.
func becomes(t *testing.T, pid int, still bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		state, _, err := stat(pid)
		if err != nil {
			t.Fatal(err)
		}
		if (state == 'T') == still {
			return
		}
	}
	t.Fatalf("process %d stands still: want %v", pid, still)
}

func TestVariablesAreExpanded(t *testing.T) {
	got := expand([]string{"pod/$victim", "x", "$node"}, map[string]string{"victim": "web-1", "node": "node2"}).rest()
	if got != "pod/web-1 x node2" {
		t.Error(got)
	}
}

func TestExitsOfAPodAreKeptOnce(t *testing.T) {
	const state = `{"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-22T17:30:00Z"}}`
	object := func(status string) string {
		return `{"metadata": {"name": "web-1", "labels": {"app": "web"}}, "spec": {"nodeName": "node2"}, "status": {"containerStatuses": [{"name": "server", ` + status + `}]}}`
	}
	w := &podWatch{pods: map[string]*Pod{}}
	for _, status := range []string{`"state": {"running": {}}`, `"state": ` + state,
		`"state": {"running": {}}, "lastState": ` + state} {
		w.see(drill.Change{Object: json.RawMessage(object(status))})
	}
	pod := w.pods["web-1"]
	if pod == nil || pod.Node != "node2" || pod.App != "web" || len(pod.Exits) != 1 || pod.Exits[0].Code != 137 ||
		pod.Exits[0].Reason != "OOMKilled" {
		t.Errorf("%+v", pod)
	}
}
