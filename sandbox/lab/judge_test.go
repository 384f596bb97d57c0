package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

var t0 = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// taken is a record whose one step, "kill server of $victim", took from 2 s to 3 s.
func taken() record {
	return record{
		Vars: map[string]string{"victim": "web-7fc9-x2kzq"},
		Steps: []Done{{Text: "kill server of $victim", Began: t0.Add(2 * time.Second),
			Ended: t0.Add(3 * time.Second)}},
		Pods: []Pod{{Name: "web-7fc9-x2kzq", App: "web", Exits: []PodExit{{Container: "server", Code: 137}}}},
	}
}

func instant(earliest, latest float64) drill.Instant {
	return drill.Instant{Earliest: time.Duration(earliest * 1e9), Latest: time.Duration(latest * 1e9)}
}

// said is a timeline of one incident, from 3 s to 5 s.
func said(failed int, causes ...string) drill.Timeline {
	t := drill.Timeline{T0: t0}
	i := drill.Incident{ID: 1, Failed: failed, Sent: 100, Start: instant(2.9, 3.1), End: instant(4.9, 5.1)}
	for _, c := range causes {
		rule, confidence, _ := strings.Cut(c, " ")
		i.Causes = append(i.Causes, drill.Cause{Rule: rule, Confidence: confidence,
			Text: "x2kzq crashed", Fix: "Find out why."})
	}
	i.Triggers = append(i.Triggers, struct{ Text string }{"deletion of web-7fc9-x2kzq"})
	t.Incidents, t.Verdict.Failed = []drill.Incident{i}, failed
	return t
}

// cuts is a timeline in which 30 held connections ended, so many of them without an announcement.
func cuts(unwarned int) drill.Timeline {
	t := said(0, "pinned-connection high")
	t.Incidents[0].Cut, t.Held = 30, []drill.Held{{Unwarned: unwarned}}
	return t
}

// predicted is a timeline without a failure, with a scorecard of "RULE OUTCOME".
func predicted(scores ...string) drill.Timeline {
	t := drill.Timeline{T0: t0}
	for _, s := range scores {
		scored := drill.ScoredPrediction{Why: "why"}
		scored.Prediction.Rule, scored.Outcome, _ = strings.Cut(s, " ")
		t.Scorecard.Predictions = append(t.Scorecard.Predictions, scored)
	}
	return t
}

func TestWhatIsHeldAgainstAnExpectation(t *testing.T) {
	crash := func(change func(*Incident)) Expectation {
		i := Incident{Rules: []string{"pod-crashed"}, Confidence: "medium"}
		if change != nil {
			change(&i)
		}
		return Expectation{Incidents: []Incident{i}, NoOther: true}
	}
	two := said(10, "pod-crashed high")
	two.Incidents = append(two.Incidents, said(3, "idle-race low").Incidents...)
	slow := said(0, "unexplained low")
	for _, c := range []struct {
		name    string
		expect  Expectation
		said    drill.Timeline
		outcome outcome
		failed  string // in the check that does not hold; empty: all hold
	}{
		{"right", crash(nil), said(10, "pod-crashed medium"), right, ""},
		{"surer", crash(nil), said(10, "pod-crashed high", "pod-hung low"), right, ""},
		{"not sure enough", crash(nil), said(10, "pod-crashed low"), right,
			"pod-crashed, medium or surer; came pod-crashed [low]"},
		{"not first", crash(nil), said(10, "pod-hung high", "pod-crashed low"), notFirst,
			"came pod-hung [high], pod-crashed [low]"},
		{"unexplained", crash(nil), said(10, "unexplained low"), unexplained, "came unexplained"},
		{"wrong", crash(nil), said(10, "route-outlives-pod high"), wrong, "came route-outlives-pod"},
		{"missed", crash(nil), drill.Timeline{T0: t0}, missed, "no further incident"},
		{"another incident", crash(nil), two, right, "no other incident; came incident 1: idle-race [low]"},
		{"another is allowed", Expectation{Incidents: crash(nil).Incidents, NoOther: true,
			Allow: []string{"idle-race"}}, two, right, ""},
		{"others are not asked about", Expectation{Incidents: crash(nil).Incidents}, two, right, ""},
		{"never", Expectation{Incidents: crash(nil).Incidents, Never: []string{"pod-hung"}},
			said(10, "pod-crashed high", "pod-hung low"), right, "never pod-hung"},
		{"never, and is not", Expectation{Incidents: crash(nil).Incidents, Never: []string{"pod-gone"}},
			said(10, "pod-crashed high"), right, ""},
		{"count", crash(func(i *Incident) { i.Failed = &Range{5, 20} }), said(10, "pod-crashed high"), right, ""},
		{"too many", crash(func(i *Incident) { i.Failed = &Range{5, 9} }), said(10, "pod-crashed high"),
			right, "5 to 9 failed; came 10"},
		{"too few", crash(func(i *Incident) { i.Failed = &Range{11, -1} }), said(10, "pod-crashed high"), right,
			"11 or more failed; came 10"},
		{"also", crash(func(i *Incident) { i.Also = []string{"pod-hung"} }),
			said(10, "pod-crashed high", "pod-hung low"), right, ""},
		{"not also", crash(func(i *Incident) { i.Also = []string{"pod-hung"} }), said(10, "pod-crashed high"),
			right, "also pod-hung; came"},
		{"begins", crash(func(i *Incident) { i.Begins = &Near{0, time.Millisecond} }),
			said(10, "pod-crashed high"), right, ""},
		{"ends too late", crash(func(i *Incident) { i.Ends = &Near{0, time.Second} }), said(10, "pod-crashed high"),
			right, "2.00 s to 4.00 s; came 4.90 s to 5.10 s"},
		{"says the short name", crash(func(i *Incident) { i.Says = []string{"$victim"} }),
			said(10, "pod-crashed high"), right, ""},
		{"says it in the fix", crash(func(i *Incident) { i.Says = []string{"find out"} }),
			said(10, "pod-crashed high"), right, ""},
		{"does not say", crash(func(i *Incident) { i.Says = []string{"137"} }), said(10, "pod-crashed high"),
			right, `says "137"`},
		{"set off by", crash(func(i *Incident) { i.SetOffBy = []string{"deletion of $victim"} }),
			said(10, "pod-crashed high"), right, ""},
		{"set off by another change", crash(func(i *Incident) { i.SetOffBy = []string{"rollout"} }),
			said(10, "pod-crashed high"), right, "set off by rollout; came deletion of x2kzq"},
		{"silent", Expectation{NoFailure: true}, drill.Timeline{T0: t0}, silent, ""},
		{"slow is no failure", Expectation{NoFailure: true}, slow, silent, ""},
		{"invented", Expectation{NoFailure: true}, said(1, "unexplained low"), invented, "no failure; came 1 failed"},
		{"announced ends are none", Expectation{NoFailure: true}, cuts(0), silent, ""},
		{"one without an announcement", Expectation{NoFailure: true}, cuts(1), invented, "no failure; came 0 failed"},
		{"which is allowed", Expectation{NoFailure: true, Cuts: true}, cuts(1), silent, ""},
		{"a failure is not", Expectation{NoFailure: true, Cuts: true}, said(1, "pinned-connection high"),
			invented, "no failure; came 1 failed"},
		{"exit", Expectation{NoFailure: true, Exits: []Exit{{"web", 137}}}, drill.Timeline{T0: t0}, silent, ""},
		{"predicted", Expectation{NoFailure: true, Scores: []Score{{"LP04", "confirmed"}}},
			predicted("LP05 refuted", "LP04 not-tested", "LP04 confirmed"), silent, ""},
		{"predicted otherwise", Expectation{NoFailure: true, Scores: []Score{{"LP04", "confirmed"}}},
			predicted("LP04 refuted"), silent, "LP04 predicted, and confirmed; came refuted: why"},
		{"not predicted", Expectation{NoFailure: true, Scores: []Score{{"LP04", "confirmed"}}},
			predicted("LP05 confirmed"), silent, "came not predicted"},
		{"other exit", Expectation{NoFailure: true, Exits: []Exit{{"$victim", 0}}}, drill.Timeline{T0: t0},
			silent, "exits 0; came server 137"},
	} {
		t.Run(c.name, func(t *testing.T) {
			names, checks := judge(Scenario{Expect: c.expect}, taken(), c.said)
			if len(names) != 1 || names[0].outcome != c.outcome {
				t.Errorf("named %+v, want %s", names, c.outcome)
			}
			var failed []string
			for _, check := range checks {
				if !check.ok {
					failed = append(failed, check.String())
				}
			}
			if c.failed == "" && failed != nil || c.failed != "" &&
				(len(failed) != 1 || !strings.Contains(failed[0], c.failed)) {
				t.Errorf("failed checks %q, want one with %q", failed, c.failed)
			}
		})
	}
}

// A step before the incident cannot have begun it later, and one after it not at all.
func TestAnEdgeIsNotBeforeItsStep(t *testing.T) {
	r := taken()
	r.Steps[0].Began = t0.Add(3500 * time.Millisecond)
	_, checks := judge(Scenario{Expect: Expectation{Incidents: []Incident{{Rules: []string{"a"}, Confidence: "low",
		Begins: &Near{0, time.Minute}}}}}, r, said(1, "a low"))
	if checks[1].ok {
		t.Errorf("it holds that it %s: %s", checks[1].want, checks[1].got)
	}
}

// Of two incidents the one that is named so is the one that is meant, even if the other lost more.
func TestIncidentsAreMatchedByName(t *testing.T) {
	both := said(10, "a low")
	both.Incidents = append(both.Incidents, said(90, "b low").Incidents...)
	names, _ := judge(Scenario{Expect: Expectation{Incidents: []Incident{{Rules: []string{"a"}, Confidence: "low"},
		{Rules: []string{"c"}, Confidence: "low"}}}}, taken(), both)
	if names[0].outcome != right || names[1].outcome != wrong || names[1].said != "b" {
		t.Errorf("named %+v", names)
	}
}

func TestCountsAreHeldAgainstTheServers(t *testing.T) {
	for _, c := range []struct {
		ok, failed, served int
		holds              bool
	}{
		{1000, 0, 1000, true},
		{1000, 20, 1010, true},  // of those that failed, ten were served in vain
		{1001, 0, 1000, false},  // an answer that nobody gave
		{1000, 20, 1021, false}, // answers that nobody counts
	} {
		r := taken()
		r.Pods = nil
		r.Before, r.After = []Count{{"a", 0}, {"b", 500}}, []Count{{"a", c.served}, {"b", 500}}
		line := drill.Timeline{T0: t0, Targets: []drill.Target{{Kind: "new", OK: c.ok, Failed: c.failed},
			{Kind: "control", OK: 77}}}
		_, checks := judge(Scenario{Expect: Expectation{NoFailure: true}}, r, line)
		if got := checks[len(checks)-1]; got.ok != c.holds {
			t.Errorf("%+v: %s", c, got)
		}
	}
	r := taken()
	r.Pods, r.Before, r.After = nil, []Count{{"a", 0}}, []Count{{"b", 500}}
	if _, checks := judge(Scenario{Expect: Expectation{NoFailure: true}}, r, drill.Timeline{}); len(checks) != 1 {
		t.Errorf("counts of a server that is gone were judged: %v", checks)
	}
	r.Before, r.After = []Count{{"a", 0}}, []Count{{"a", 500}} // of its second container: the first one's are lost
	r.Pods = []Pod{{Name: "a", App: "web", Exits: []PodExit{{Code: 1}}}}
	if _, checks := judge(Scenario{Expect: Expectation{NoFailure: true}}, r, drill.Timeline{}); len(checks) != 1 {
		t.Errorf("counts of a server that was restarted were judged: %v", checks)
	}
}

func TestCutRules(t *testing.T) {
	rules := cutRules("lapse-cut-lab", []string{"10.200.0.1"}, "6443")
	if strings.Count(rules, "ip daddr { 10.200.0.1 } tcp dport 6443 drop") != 3 ||
		strings.Count(rules, "ip saddr { 10.200.0.1 } tcp sport 6443 drop") != 3 {
		t.Error(rules)
	}
}

func TestShortNameIsWhatKubernetesMadeUp(t *testing.T) {
	for pod, want := range map[string]string{"web-7fc9-x2kzq": "x2kzq", "web-0": "web-0", "web-a": "web-a"} {
		if got := shortName(pod); got != want {
			t.Errorf("%s: %s, want %s", pod, got, want)
		}
	}
}

// The truth: the node routed to the Pod for 200 to 210 ms after it had stopped.
func TestLagsAreHeldAgainstTheTruth(t *testing.T) {
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	r := taken()
	r.Routes = []truth.Pod{{Name: "web-7fc9-x2kzq", Stopped: truth.Bracket{Earliest: at(3000), Latest: at(3000)},
		Routed: truth.Bracket{Earliest: at(3200), Latest: at(3210)}}}
	for lag, holds := range map[time.Duration]bool{205 * time.Millisecond: true, 400 * time.Millisecond: false} {
		line := drill.Timeline{T0: t0, Windows: []drill.Window{{Target: "web new",
			Causes: []drill.Cause{{Rule: "route-outlives-pod",
				Measures: []drill.Measure{{Name: "route-lag", Object: "web-7fc9-x2kzq",
					Length: drill.Length{Min: lag, Max: lag}}}}}}}}
		_, checks := judge(Scenario{Expect: Expectation{NoFailure: true, Lags: true}}, r, line)
		if got := checks[1]; got.ok != holds || !strings.Contains(got.want, "no lag") {
			t.Errorf("%v: %s", lag, got)
		}
	}
	r.Routes = nil
	if _, checks := judge(Scenario{Expect: Expectation{NoFailure: true, Lags: true}}, r,
		drill.Timeline{}); checks[1].ok {
		t.Error("no Pod ended, and it holds")
	}
}

func TestSavedRunsOfAnotherScenarioAreLeftOut(t *testing.T) {
	now, err := Parse("crash.txtar", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	var steps []Done
	for _, s := range now.Steps {
		steps = append(steps, Done{Text: s.Text, Ended: t0})
	}
	cut := slices.Clone(steps)
	cut[3].Ended = time.Time{}
	for _, c := range []struct {
		name, old, new string
		steps          []Done
		want           string
		lags           bool
	}{
		{"as it is", "", "", steps, "", true},
		{"other words for what is expected", "failed 10..200", "failed 10..", steps, "", true},
		{"the lags were not recorded", "lags hold\n", "", steps, "", false},
		{"cut off", "", "", cut, "it was cut off", true},
		{"other manifest", "kind: Deployment", "kind: StatefulSet", steps, "does something else now", true},
		{"other flags", "--rate 50", "--rate 60", steps, "does something else now", true},
		{"other steps", "# a comment", "after 2s", steps, "does something else now", true},
		{"other grammar", "try drain", "attempt drain", steps, "only another version", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := result{scenario: now, record: record{Text: strings.Replace(good, c.old, c.new, 1), Steps: c.steps}}
			var got string
			if err := r.outdated(); err != nil {
				got = err.Error()
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || r.scenario.Expect.Lags != c.lags {
				t.Errorf("%q, lags %v", got, r.scenario.Expect.Lags)
			}
		})
	}
}

// A prober that stalled as a fault ended does not know how long it went on.
func TestAnOpenBracketReachesThroughTheUnobservedTimeBesideIt(t *testing.T) {
	near := &Near{Within: time.Second} // 2 s to 4 s
	expect := Expectation{Incidents: []Incident{{Rules: []string{"pod-crashed"}, Confidence: "medium",
		Begins: near, Ends: near}}}
	for _, c := range []struct {
		name             string
		begin, end       drill.Instant
		openBegin        bool
		openEnd          bool
		unobserved       drill.Unobserved
		beginsOK, endsOK bool
	}{
		{"closed", instant(2.9, 3.1), instant(1.8, 1.9), false, false,
			drill.Unobserved{Target: "new", Start: 18e8, End: 25e8}, true, false},
		{"open at its end", instant(2.9, 3.1), instant(1.8, 1.9), false, true,
			drill.Unobserved{Target: "new", Start: 18e8, End: 25e8}, true, true},
		{"another target's time", instant(2.9, 3.1), instant(1.8, 1.9), false, true,
			drill.Unobserved{Target: "reused", Start: 18e8, End: 25e8}, true, false},
		{"time elsewhere", instant(2.9, 3.1), instant(1.8, 1.9), false, true,
			drill.Unobserved{Target: "new", Start: 20e8, End: 25e8}, true, false},
		{"open at its begin", instant(4.2, 4.3), instant(3, 3.1), true, false,
			drill.Unobserved{Target: "new", Start: 35e8, End: 42e8}, true, true},
		{"late", instant(4.2, 4.3), instant(3, 3.1), false, false,
			drill.Unobserved{Target: "new", Start: 35e8, End: 42e8}, false, true},
	} {
		timeline := said(10, "pod-crashed high")
		timeline.Incidents[0].Windows, timeline.Incidents[0].Start, timeline.Incidents[0].End = []int{1},
			c.begin, c.end
		w := drill.Window{ID: 1, Target: "new", Start: c.begin, End: c.end}
		w.Open.Start, w.Open.End = c.openBegin, c.openEnd
		timeline.Windows, timeline.Unobserved = []drill.Window{w}, []drill.Unobserved{c.unobserved}
		_, checks := judge(Scenario{Name: "x", Expect: expect}, taken(), timeline)
		ok := func(edge string) bool {
			i := slices.IndexFunc(checks, func(k check) bool { return strings.HasPrefix(k.want, edge) })
			return i >= 0 && checks[i].ok
		}
		if ok("begins") != c.beginsOK || ok("ends") != c.endsOK {
			t.Errorf("%s: begins %v, ends %v: want %v, %v", c.name, ok("begins"), ok("ends"), c.beginsOK, c.endsOK)
		}
	}
}
