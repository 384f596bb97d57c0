package preflight

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	junit "github.com/joshdk/go-junit"

	"lapse/report/document"
	"lapse/timeline"
)

// judged is a result of all kinds: a finding, an accepted one, a rule that could not judge, and a rule that found
// nothing.
func judged() Result {
	r := Result{Service: "shop/web", Unjudged: []Unjudged{{"LP03", "no-budget", "no right to list poddisruptionbudgets.policy"}}}
	f := Finding{Rule: "LP08", Name: "fragile-hook", Severity: MayLose, Prediction: "the hook fails", Fix: "sleep", Evidence: []Evidence{{"Deployment/web", "command", "sh -c \x1b[31mred\n" + strings.Repeat("x", 500)}}}
	r.Findings = append(r.Findings, f)
	f.Rule, f.Name, f.Accepted = "LP05", "no-prestop", "it drains"
	r.Accepted = append(r.Accepted, f)
	return r
}

func write(t *testing.T, format string) []byte {
	t.Helper()
	r, b := judged(), new(bytes.Buffer)
	for _, f := range Formats {
		if f.Name == format {
			if err := f.Write(b, &r, document.Screen{Unicode: true, Width: 200}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.Bytes()
}

func TestTheTableHasNothingThatATerminalObeysAndCutsLongValues(t *testing.T) {
	text := string(write(t, "table"))
	if strings.Contains(text, "\x1b") || !strings.Contains(text, "…") {
		t.Errorf("%q", text)
	}
	if !strings.Contains(text, "LP05 no-prestop of Deployment/web: it drains") || !strings.Contains(text, "LP03 no-budget: no right to list") {
		t.Error(text)
	}
}

func TestTheTableSaysWhatConfirmsABlockedDrain(t *testing.T) {
	var b strings.Builder
	if err := writeTable(&b, &Result{Findings: []Finding{{Rule: "LP04", Severity: WillBlock, When: timeline.EvictionAsked}}}, document.Screen{Unicode: true, Width: 200}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "confirms it when an eviction is refused") {
		t.Error(b.String())
	}
}

func TestJUnitIsReadAsItIsMeant(t *testing.T) {
	suites, err := junit.Ingest(write(t, "junit"))
	if err != nil || len(suites) != 1 {
		t.Fatal(suites, err)
	}
	got := map[junit.Status][]string{}
	for _, c := range suites[0].Tests {
		got[c.Status] = append(got[c.Status], c.Name)
	}
	if len(got[junit.StatusFailed]) != 1 || got[junit.StatusFailed][0] != "LP08 fragile-hook" || len(got[junit.StatusSkipped]) != 1 || got[junit.StatusSkipped][0] != "LP03 no-budget" || len(got[junit.StatusPassed]) != len(rules)-2 {
		t.Errorf("%v", got)
	}
}

func TestSARIFKeepsWhatIsAcceptedAsSuppressed(t *testing.T) {
	var document struct {
		Version string
		Runs    []struct {
			Results []struct {
				RuleID, Level string
				Suppressions  []struct{ Kind, Justification string }
			}
		}
	}
	if err := json.Unmarshal(write(t, "sarif"), &document); err != nil {
		t.Fatal(err)
	}
	results := document.Runs[0].Results
	if len(results) != 2 || results[0].RuleID != "LP08" || results[0].Level != "warning" || results[0].Suppressions != nil || results[1].Suppressions[0].Justification != "it drains" {
		t.Errorf("%+v", document)
	}
}

func TestTheTableKeepsToTheScreen(t *testing.T) {
	r, b := judged(), new(strings.Builder)
	if err := writeTable(b, &r, document.Screen{Width: 60}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if strings.ContainsFunc(line, func(c rune) bool { return c > unicode.MaxASCII }) {
			t.Errorf("not ASCII: %q", line)
		}
		if len(strings.TrimRight(line, "\n")) > 60 && !strings.Contains(line, "no right to") { // what may be copied is not broken
			t.Errorf("longer than 60: %q", line)
		}
	}
}
