package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type tossed struct {
	Conditions
	Number int
	Side   string
	again  bool
}

func (t tossed) String() string { return t.Side }

// coin is a study of n trials that fails at one of them.
func coin(n, failsAt int) Study[tossed] {
	return Study[tossed]{
		Name:  "coin",
		Table: "coin.md",
		File:  "side.json",
		Plan: func(mode string) (all []tossed) {
			for i := range n {
				all = append(all, tossed{Conditions: Conditions{Mode: mode}, Number: i + 1})
			}
			return all
		},
		Folder: func(t tossed) string { return filepath.Join(t.Mode, fmt.Sprint(t.Number)) },
		Measure: func(_ context.Context, _ *Cluster, t *tossed, _ string) error {
			if t.Number == failsAt {
				return errors.New("it rolled away")
			}
			t.Begin("toss")
			t.Side = []string{"tails", "heads"}[t.Number%2]
			return nil
		},
		Judge: func(_ context.Context, t *tossed, dir string) error {
			t.again = filepath.Base(dir) == fmt.Sprint(t.Number)
			return nil
		},
		Document: func(all []tossed) string { return fmt.Sprint(len(all), " trials: ", all, "\n") },
		Verdict: func(all []tossed) error {
			if all[0].again {
				return errors.New("judged again")
			}
			return nil
		},
	}
}

// series is one on a sandbox that is up in iptables mode.
func series(t *testing.T) Series {
	dir := t.TempDir()
	t.Setenv("LAPSE_SANDBOX_DIR", dir)
	for file, text := range map[string]string{"kubeconfig": "", "sandbox.json": `{"proxyMode": "iptables"}`} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Series{Files: Files{Runs: filepath.Join(dir, "runs"), Out: filepath.Join(dir, "out")}, Modes: List{""}}
}

func published(t *testing.T, s Series) string {
	doc, err := os.ReadFile(filepath.Join(s.Out, "coin.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

func TestAStudyIsPlayedSavedAndJudgedAgain(t *testing.T) {
	s := series(t)
	if err := coin(3, 0).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	const doc = "3 trials: [heads tails heads]\n"
	if got := published(t, s); got != doc {
		t.Errorf("%q, want %q", got, doc)
	}
	folders, err := filepath.Glob(filepath.Join(s.Runs, "coin-*"))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	s.Judge, s.Out = folders[0], filepath.Join(s.Runs, "again")
	if err := coin(3, 0).Run(t.Context(), s); err == nil || err.Error() != "judged again" {
		t.Error(err)
	}
	if got := published(t, s); got != doc {
		t.Errorf("again: %q, want %q", got, doc)
	}
}

func TestAStudyThatFailsPublishesWhatItHas(t *testing.T) {
	s := series(t)
	if err := coin(3, 2).Run(t.Context(), s); err == nil || err.Error() != "iptables/2: it rolled away" {
		t.Error(err)
	}
	if got := published(t, s); got != "1 trials: [heads]\n" {
		t.Error(got)
	}
	if err := coin(3, 1).Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "it rolled away") {
		t.Errorf("no trial at all: %v", err)
	}
	if err := coin(0, 0).Run(t.Context(), s); err == nil || err.Error() != "no runs" {
		t.Errorf("no trial is planned: %v", err)
	}
}

func TestAStudyWithoutAFileIsNotJudgedAgain(t *testing.T) {
	s := series(t)
	s.Judge = s.Runs
	study := coin(1, 0)
	study.File = ""
	if err := study.Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "cannot be judged again") {
		t.Error(err)
	}
}
