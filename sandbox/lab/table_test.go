package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

func TestTableCountsEveryRun(t *testing.T) {
	one := func(name, mode string, outcome outcome, said, confidence string, checks ...check) result {
		r := result{scenario: Scenario{Name: name},
			record: record{Mode: mode, Number: 1, Together: 2,
				Command: "lapse run svc/web -n lab-3 --out /runs/1 --rate 100 --fail-if failed>0 --rate 30",
				LoadAvg: "2.5"},
			names: []named{{outcome, "pod-crashed", said, confidence}}, checks: checks, recorder: "v1"}
		r.run.Timeline.Tool.Version = "v2"
		r.run.Timeline.Verdict.Coverage = 0.987
		return r
	}
	broken := one("hung", "iptables", "", "", "")
	broken.Together = 1
	broken.names, broken.err, broken.run = nil, errors.New("no API server"), drill.Run{}
	scored := func(r result, confirmed, refuted, missed int) result {
		s := &r.run.Timeline.Scorecard
		s.Predicted, s.Confirmed, s.Refuted, s.NotTested, s.Missed = confirmed+refuted+1, confirmed, refuted, 1, missed
		return r
	}
	calm := one("calm", "iptables", silent, "", "")
	calm.names[0].want = noFailure
	doc := document([]result{
		scored(one("crash", "nftables", right, "pod-crashed", "high"), 1, 0, 0),
		scored(one("crash", "iptables", right, "pod-crashed", "high"), 2, 1, 0),
		scored(one("crash", "iptables", wrong, "pod-hung", "high",
			check{false, "pod-crashed, medium or surer", "pod-hung [high]"}), 0, 1, 1),
		one("crash-oom", "iptables", right, "pod-killed", "high"),
		calm,
		broken,
	}, leftOut{outdated: 3, unjudged: 2}, func(cause string) bool { return cause == "pod-crashed" })
	for _, want := range []string{
		"lapse run svc/web -n lab --rate 100 --fail-if failed>0\n",
		"\n6 runs, ", "(minimum / median / maximum). 5 runs were played up to 2 at a time.\n" +
			"Recorded by Lapse 6 × v1; judged by 5 × v2, unknown.",
		" 3 saved runs were left out: their scenario does something else now. 2 saved runs were not judged.\n",
		"| cause | iptables | nftables | scenarios |\n|---|---|---|---|\n" +
			"| [pod-crashed](../causes/pod-crashed.md) | 2 of 3 | 1 of 1 | crash, crash-oom (named pod-killed) |\n" +
			"| no failure | 1 of 1 | – | calm |\n\n",
		"Preflight predicted 8 times something that a run can confirm: 3 confirmed, 2 refuted, 3 not tested. It missed " +
			"1 incidents.\n",
		"Of 4 incidents: 3 right, 0 not first, 0 unexplained, 1 wrong (1 of them with high confidence), 0 missed. Of " +
			"1 runs that were to lose nothing: 1 silent.",
		"- crash, iptables, run 1: want pod-crashed, medium or surer; came pod-hung [high]\n",
		"- hung, iptables, run 1: not played: no API server\n",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("no %q in\n%s", want, doc)
		}
	}
}

func TestTheTableKeepsWhatIsWrittenByHand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, table)
	if err := os.WriteFile(file, []byte("old\n\n"+byHand+"\n## What the table does not show\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := settings{Series: drill.Series{Files: drill.Files{Out: dir}}}
	if err := publish(s, []result{{record: record{Mode: "iptables"}}}, leftOut{}); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(doc); strings.Contains(text, "old") ||
		!strings.HasSuffix(text, "Nothing.\n\n"+byHand+"\n## What the table does not show\n") {
		t.Error(text)
	}
}

func TestASavedRunWithoutATimelineIsNamedAndTheOthersAreJudged(t *testing.T) {
	dir := t.TempDir()
	scenario, err := Parse("crash.txtar", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	r := record{Scenario: "crash", Text: good, Mode: "iptables"}
	for _, s := range scenario.Steps {
		r.Steps = append(r.Steps, Done{Text: s.Text, Began: t0, Ended: t0})
	}
	for _, number := range []string{"1", "2"} {
		run := filepath.Join(dir, "iptables", "crash", number, "run")
		if err := errors.Join(os.MkdirAll(run, 0o755), drill.Save(filepath.Dir(run), recordFile, r)); err != nil {
			t.Fatal(err)
		}
	}
	timeline := filepath.Join(dir, "iptables", "crash", "2", "run", "timeline.json")
	lapse := filepath.Join(dir, "lapse")
	if err := errors.Join(os.WriteFile(timeline, []byte("{}"), 0o644),
		os.WriteFile(lapse, []byte("#!/bin/sh\necho {}\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	s := settings{Series: drill.Series{Judge: dir, Files: drill.Files{Lapse: lapse}}}
	results, left, err := judgeAll(t.Context(), s, []Scenario{scenario})
	if len(results) != 1 || left != (leftOut{unjudged: 1}) || err == nil ||
		err.Error() != "1 of 2 saved runs were not judged" {
		t.Errorf("%d results, %+v left out, %v", len(results), left, err)
	}
}
