package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

func lengths(values ...int) (all []time.Duration) {
	for _, v := range values {
		all = append(all, time.Duration(v)*time.Millisecond)
	}
	return all
}

// The exact confidences are 1 − 2 Σ (n over i) ÷ 2^n, of i up to the values that are left out on one side.
func TestMedianInterval(t *testing.T) {
	for _, test := range []struct {
		values     []time.Duration
		min, max   int
		confidence float64 // 0: none
	}{
		{lengths(1, 2, 3, 4, 5), 0, 0, 0},
		{lengths(6, 5, 4, 3, 2, 1), 1, 6, 1 - 2./64},
		{lengths(10, 9, 8, 7, 6, 5, 4, 3, 2, 1), 2, 9, 1 - 22./1024},
		{lengths(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 3, 10, 1 - 2*79./4096},
	} {
		in, ok := medianInterval(test.values)
		if ok != (test.confidence > 0) {
			t.Errorf("%v: %+v, %v", test.values, in, ok)
			continue
		}
		if want := lengths(test.min, test.max); ok &&
			(in.min != want[0] || in.max != want[1] || math.Abs(in.confidence-test.confidence) > 1e-12) {
			t.Errorf("%v: %+v, want %v with %v", test.values, in, want, test.confidence)
		}
	}
}

func podChange(kind, uid, labels, metadata string) string {
	return fmt.Sprintf(`{"type": %q, "object": {"metadata": {"uid": %q, "name": "pod-%s", "labels": {%s}%s}}}`,
		kind, uid, uid, labels, metadata)
}

// Pods that end before the drain or after it are not its own; one that is not gone when it ends was evicted and has
// not ended.
func TestOutcomeIsWhatEndedWhileTheDrainRan(t *testing.T) {
	const deleted = `, "deletionTimestamp": "2026-11-23T09:05:05Z"`
	zero := time.Date(2026, 11, 23, 9, 5, 0, 0, time.UTC)
	var log podLog
	for _, c := range []struct {
		seen                 float64
		kind, uid, app, more string
	}{
		{0, "ADDED", "1", "first", ""},
		{0, "ADDED", "2", "second", ""},
		{1, "DELETED", "0", "earlier", deleted},
		{5, "MODIFIED", "2", "second", deleted},
		{5.1, "MODIFIED", "1", "first", deleted},
		{5.2, "MODIFIED", "3", "", deleted},
		{6, "ADDED", "4", "first", ""}, // takes its place
		{6.5, "MODIFIED", "1", "first", deleted},
		{7, "DELETED", "1", "first", deleted},
		{9, "DELETED", "2", "second", deleted},
		{12, "DELETED", "3", "", deleted},
		{20, "MODIFIED", "4", "first", deleted},
	} {
		labels := ""
		if c.app != "" {
			labels = fmt.Sprintf(`"app": %q`, c.app)
		}
		object := podChange(c.kind, c.uid, labels, c.more)
		object = object[strings.Index(object, `{"metadata"`) : len(object)-1]
		log.add(drill.Change{Seen: zero.Add(time.Duration(c.seen * float64(time.Second))),
			Type: c.kind, Object: []byte(object)})
	}
	if log.err != nil {
		t.Fatal(log.err)
	}
	o := log.outcome(ended{from: zero.Add(4 * time.Second), to: zero.Add(10 * time.Second), code: 1})
	if got := fmt.Sprint(o); got != "{1 [second first pod-3] [first second] 6s 4s}" {
		t.Error(got)
	}
	if got := fmt.Sprint(log.outcome(ended{from: zero.Add(30 * time.Second),
		to: zero.Add(31 * time.Second)})); got != "{0 [] [] 1s 0s}" {
		t.Errorf("nothing ended: %s", got)
	}
	if log.add(drill.Change{Object: []byte("{")}); log.err == nil {
		t.Error("half an object is no error")
	}
}

func TestExitCodeIsOfAProgramThatEndedByItself(t *testing.T) {
	if code, err := exitCode(fmt.Errorf("drain: %w", exec.Command("sh", "-c", "exit 3").Run())); code != 3 ||
		err != nil {
		t.Error(code, err)
	}
	if code, err := exitCode(nil); code != 0 || err != nil {
		t.Error(code, err)
	}
	for _, err := range []error{errors.New("no kubectl"), exec.Command("sh", "-c", "kill -9 $$").Run()} {
		if _, got := exitCode(err); got == nil {
			t.Errorf("%v is no end of its own", err)
		}
	}
}

// sample is n pairs in which the drain with Lapse took so much longer.
func sample(n int, longer func(pair int) time.Duration) (drains []drain) {
	all := []string{"first", "second", "third", "fourth"}
	for i := range n {
		took := 8*time.Second + time.Duration(i)*100*time.Millisecond
		for turn := range 2 {
			d := drain{Conditions: drill.Conditions{Mode: "iptables", Command: "kubectl drain node2"}, Pair: i + 1,
				First: turn == 0, Lapse: (i+turn)%2 == 1, Load: "0.50",
				Outcome: outcome{Asked: all, Gone: all, Command: took, Pods: took - time.Second}}
			if d.Lapse {
				d.Outcome.Command += longer(i)
				d.Outcome.Asked = []string{"second", "first", "third", "fourth"} // by chance
			}
			drains = append(drains, d)
		}
	}
	return drains
}

func noise(pair int) time.Duration { return []time.Duration{-40, 30}[pair%2] * time.Millisecond }

func TestJudgement(t *testing.T) {
	if err := judgement(byMode(sample(10, noise))); err != nil {
		t.Error(err)
	}
	err := judgement(byMode(sample(10, func(int) time.Duration { return 300 * time.Millisecond })))
	if err == nil || err.Error() != "iptables: `kubectl drain` takes 300ms to 300ms longer with Lapse" {
		t.Error(err)
	}
	if err := judgement(byMode(sample(5, noise))); err == nil ||
		!strings.Contains(err.Error(), "5 pairs are too few") {
		t.Error(err)
	}
	drains := sample(10, noise)
	for i := range drains {
		if d := &drains[i]; d.Lapse && d.Pair == 3 {
			d.Outcome.ExitCode, d.Outcome.Gone = 1, []string{"first", "third", "second", "fourth"}
		} else if d.Lapse && d.Pair == 4 {
			d.Outcome.Asked = append(d.Outcome.Asked, "lapse-1")
		} else if !d.Lapse && d.Pair == 5 {
			d.Outcome.Asked = nil
		}
	}
	err = judgement(byMode(drains))
	for _, want := range []string{
		"iptables: pair 3: exit code 1 with Lapse, 0 without; pair 3: ended [first third second fourth] with Lapse, " +
			"[first second third fourth] without\n",
		"pair 4: evicted [first fourth lapse-1 second third] with Lapse", "pair 5: evicted",
		"pair 5: without Lapse 0 Pods were evicted, of 4",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	doc := document(byMode(drains))
	if !strings.Contains(doc, "What differs:\n\n- pair 3: exit code") ||
		strings.Contains(doc, "are the same with Lapse") {
		t.Error(doc)
	}
}

func TestHalfAPairIsLeftOut(t *testing.T) {
	drains := sample(3, noise)
	groups := byMode(drains[:5])
	if len(groups) != 1 || len(groups[0]) != 2 {
		t.Errorf("%+v", groups)
	}
	if p := groups[0][1]; !p.with.Lapse || p.without.Lapse || p.with.Pair != 2 || !p.with.First {
		t.Errorf("%+v", p)
	}
	drains[2].Mode, drains[3].Mode = "nftables", "nftables"
	if groups := byMode(drains); len(groups) != 2 || groups[1][0].with.Mode != "nftables" {
		t.Errorf("%+v", groups)
	}
}

func TestDocumentListsAllPairs(t *testing.T) {
	doc := document(byMode(sample(10, noise)))
	for _, line := range []string{
		"| 1 | without | 0.50 | 0 | first, second, third, fourth / second, first, third, fourth | first, second, " +
			"third, fourth | 8.00 | 7.96 | -0.04 | 7.00 | 7.00 | +0.00 |",
		"In all 10 pairs the exit code, the evicted Pods and the order in which they ended are the same with Lapse " +
			"as without.",
		"The order in which they were told to end: without Lapse first second third fourth (10 times); with it " +
			"second first third fourth (10 times).",
		"| `kubectl drain` | 8.45 | 8.45 | -0.01 | -0.04 to +0.03 | 97.9 % | no difference seen |",
	} {
		if !strings.Contains(doc, line+"\n") {
			t.Errorf("no %q in\n%s", line, doc)
		}
	}
}

func TestPlayRefusesNoPairs(t *testing.T) {
	if err := paired(context.Background(), settings{}); err == nil ||
		!strings.Contains(err.Error(), "at least one pair") {
		t.Error(err)
	}
}
