package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const good = `Killed.

Row 1.
-- manifest.yaml --
kind: Deployment
-- steps --
let victim = pod of web on node2
# a comment
after 1s
try drain node2 --timeout=5s
meanwhile kill server of $victim
cut node1 from $victim
patch service/web {"spec": {"selector": {"app": "b"}}}
-- lapse --
--avoid-node node2
--rate 50
-- expect --
incident pod-crashed or pod-hung high
  begins within 1s of try drain node2 --timeout=5s
  ends within 500ms of after 1s
  failed 10..200
  says exit 137 of $victim
incident node-unreachable
  also dns-path
no other incident
allow pinned-connection, idle-race
never prober-fault
lags hold
predicted LP04 refuted
provoked $victim exits 137
  cut 20..
  set off by deletion of $victim
`

func TestScenarioIsRead(t *testing.T) {
	s, err := Parse("x/crash.txtar", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "crash" || s.Title() != "Killed." || len(s.Steps) != 6 ||
		strings.Join(s.Flags, " ") != "--avoid-node node2 --rate 50" {
		t.Errorf("got %+v", s)
	}
	if !s.Steps[2].Try || s.Steps[2].Background || !s.Steps[3].Background || s.Steps[3].Line != 11 {
		t.Errorf("steps %+v", s.Steps)
	}
	if len(s.Expect.Incidents) != 2 || !s.Expect.NoOther || !s.Expect.Lags || len(s.Expect.Allow) != 2 ||
		len(s.Expect.Never) != 1 || s.Expect.Exits[0] != (Exit{"$victim", 137}) ||
		s.Expect.Scores[0] != (Score{"LP04", "refuted"}) {
		t.Fatalf("expect %+v", s.Expect)
	}
	i := s.Expect.Incidents[0]
	if strings.Join(i.Rules, " ") != "pod-crashed pod-hung" || i.Confidence != "high" ||
		*i.Begins != (Near{2, time.Second}) ||
		*i.Ends != (Near{1, 500 * time.Millisecond}) || *i.Failed != (Range{10, 200}) ||
		*s.Expect.Incidents[1].Cut != (Range{20, -1}) || i.Says[0] != "exit 137 of $victim" {
		t.Errorf("incident %+v", i)
	}
	if got := s.Expect.Incidents[1]; got.Confidence != "medium" || got.Also[0] != "dns-path" ||
		got.SetOffBy[0] != "deletion of $victim" {
		t.Errorf("%+v: want medium as the least confidence where nothing is said", got)
	}
}

// Each replaces the first text by the second; the error must name the line and what was wanted.
func TestWrongScenariosAreRefusedWithTheLine(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown verb", "after 1s\ntry", "sleep 1s\ntry",
			`crash.txtar:9: unknown step "sleep": want one of let, after`},
		{"no length", "after 1s\ntry", "after soon\ntry", "crash.txtar:9: \"after soon\": want `after 3s"},
		{"drain what", "try drain node2 --timeout=5s\nmean", "drain\nmean",
			"crash.txtar:10: \"drain\": want `drain NODE"},
		{"unset variable", "server of $victim", "server of $other", "crash.txtar:11: $other is not set"},
		{"unknown process", "kill server of", "kill server in",
			"crash.txtar:11: \"meanwhile kill server in $victim\": want `kill server of POD"},
		{"a component is not killed", "kill server of $victim", "kill kubelet node1", "crash.txtar:11"},
		{"no such step", "of after 1s", "of after 2s", `crash.txtar:20: no step is "after 2s"`},
		{"length of an edge", "within 500ms", "within a", `crash.txtar:20: "a": want a length of time`},
		{"range", "10..200", "200..10", `crash.txtar:21: "200..10": want a number of requests`},
		{"unknown detail", "  failed", "  lost", "crash.txtar:21: \"lost 10..200\": want `begins"},
		{"detail without incident", "incident pod-crashed or pod-hung high\n", "",
			"crash.txtar:18: want `incident RULE` above"},
		{"incident without rule", "incident node-unreachable", "incident",
			"crash.txtar:23: \"incident\": want `incident RULE"},
		{"unknown line", "no other incident", "nothing else", "crash.txtar:25: \"nothing else\": want"},
		{"both", "no other incident", "no failure", "crash.txtar:18: an incident, and `no failure`"},
		{"never what is wanted", "never prober-fault", "never pod-hung", "pod-hung is wanted, and never wanted"},
		{"exit code", "exits 137", "exits badly", `"badly" is no exit code`},
		{"unknown section", "-- lapse --", "-- flags --", `crash.txtar:14: unknown section "flags"`},
		{"section twice", "-- lapse --", "-- steps --", `crash.txtar:14: a second section "steps"`},
		{"no comment", "Killed.\n\nRow 1.\n", "", "crash.txtar:1: want a comment first"},
		{"no manifest", "kind: Deployment\n", "", `want a section "manifest.yaml"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			if text == good {
				t.Fatal("nothing was replaced")
			}
			if _, err := Parse("x/crash.txtar", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

// With its fix a scenario does the same on another manifest, and nothing may fail.
func TestFixedScenario(t *testing.T) {
	const text = "Cut off.\n-- manifest.yaml --\nkind: Deployment\nspec:\n  - args: [a]\n    grace: 2\n  - args: [a]\n" +
		"-- steps --\nafter 1s\n-- expect --\nincident pod-hung\n-- fix --\nreplace args: [a]\n" +
		"replace - args: [a]\nwith - args: [b]\nwith   probe: c\nallow cuts\n-- fix.yaml --\nkind: Budget\n"
	if _, err := Parse("x/cut.txtar", []byte(text)); err == nil ||
		!strings.Contains(err.Error(), `cut.txtar:13: the manifest has no line "args: [a]"`) {
		t.Errorf("a line that is not there: error %v", err)
	}
	s, err := Parse("x/cut.txtar", []byte(strings.Replace(text, "replace args: [a]\n", "", 1)))
	if err != nil || !s.hasFix() {
		t.Fatalf("%+v, error %v", s, err)
	}
	f := s.fixed()
	const want = "kind: Deployment\nspec:\n  - args: [b]\n    probe: c\n    grace: 2\n  - args: [a]\n---\n" +
		"kind: Budget\n"
	if f.Name != "cut-fixed" || f.Manifest != want || !f.Expect.NoFailure || !f.Expect.Cuts ||
		len(f.Expect.Incidents) > 0 || len(f.Steps) != 1 {
		t.Errorf("%+v", f)
	}
	if s.Manifest == want || len(s.Expect.Incidents) != 1 {
		t.Errorf("the scenario itself has changed: %+v", s)
	}
	for _, wrong := range []string{"with b", "replace", "put b"} {
		if _, err := Parse("x/cut.txtar", []byte(strings.Replace(text, "replace args: [a]", wrong, 1))); err == nil ||
			!strings.Contains(err.Error(), "want `replace LINE`") {
			t.Errorf("%s: error %v", wrong, err)
		}
	}
}

// Steps apply further manifests, which are sections of the scenario.
func TestStepsApplyOnlyWhatTheScenarioHas(t *testing.T) {
	const text = "Applied.\n-- manifest.yaml --\nkind: Deployment\n-- again.yaml --\nkind: Service\n" +
		"-- certificate --\ngood for 75s\n" +
		"-- steps --\napply again.yaml\nrenew certificate\n-- expect --\nno failure\n"
	s, err := Parse("x/applied.txtar", []byte(text))
	if err != nil || s.Further["again.yaml"] != "kind: Service\n" || s.GoodFor != 75*time.Second {
		t.Errorf("%+v, error %v", s, err)
	}
	for old, put := range map[string]struct{ text, want string }{
		"apply again.yaml":  {"apply other.yaml", ":9: \"apply other.yaml\": the scenario has no section other.yaml"},
		"-- again.yaml --":  {"-- again --", `:4: unknown section "again"`},
		"good for 75s":      {"good for ever", ":7: \"good for ever\": want one line"},
		"renew certificate": {"renew lease", ":10: \"renew lease\": want `renew certificate"},
	} {
		if _, err := Parse("x/applied.txtar", []byte(strings.Replace(text, old, put.text, 1))); err == nil ||
			!strings.Contains(err.Error(), put.want) {
			t.Errorf("%s: error %v, want %q", put.text, err, put.want)
		}
	}
}

func TestImagesOfDebianPackagesAreFound(t *testing.T) {
	s := Scenario{Manifest: "  - image: debian:nginx-light\n  - image: \"debian:php8.2-fpm\"\n" +
		"  - image: debian:nginx-light\n  - image: lapse-workload:dev\n"}
	if got := strings.Join(s.images(), " "); got != "debian:nginx-light debian:php8.2-fpm" {
		t.Errorf("images %s", got)
	}
}

func TestNoScenarioWithoutExpectation(t *testing.T) {
	for name, expect := range map[string]string{"no section": "", "empty": "-- expect --\n",
		"only a comment": "-- expect --\n# later\n", "only never": "-- expect --\nnever pod-hung\n"} {
		head, _, _ := strings.Cut(good, "-- expect --")
		if _, err := Parse("x/crash.txtar", []byte(head+expect)); err == nil ||
			!strings.Contains(err.Error(), `want a section "expect" with an incident, or `+"`no failure`") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	text := strings.NewReplacer("after 1s\ntry", "sleep 1s\ntry", "10..200", "many").Replace(good)
	_, err := Parse("x/crash.txtar", []byte(text))
	if err == nil || !strings.Contains(err.Error(), ":9:") || !strings.Contains(err.Error(), ":21:") {
		t.Errorf("error %v, want lines 9 and 21", err)
	}
}

func TestScenariosOfTheLabAreRight(t *testing.T) {
	for _, folder := range []string{"scenarios", "heldout"} {
		if _, err := Load(folder); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"nothing-of-the-kind", "control-cordon-fixed"} {
		if _, err := Load("scenarios", name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if s, err := Load("scenarios", "grace-too-short-fixed"); err != nil ||
		s[0].Name != "grace-too-short-fixed" || !s[0].Expect.NoFailure {
		t.Errorf("%+v, error %v", s, err)
	}
}

// Each cause of the field guide is provoked by a scenario.
func TestEveryCauseHasAScenario(t *testing.T) {
	scenarios, err := Load("scenarios")
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]bool{theUnexplained: true} // of no cause in particular
	for _, s := range scenarios {
		for _, i := range s.Expect.Incidents {
			for _, rule := range i.Rules {
				expected[rule] = true
			}
		}
	}
	pages, err := filepath.Glob("../../docs/causes/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("the field guide has %d pages, error %v", len(pages), err)
	}
	for _, page := range pages {
		cause := strings.TrimSuffix(filepath.Base(page), ".md")
		if cause != "README" && !expected[cause] {
			t.Errorf("no scenario expects %s", cause)
		}
	}
}
