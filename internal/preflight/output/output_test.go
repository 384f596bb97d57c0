package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	junit "github.com/joshdk/go-junit"

	"lapse/internal/preflight"
	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/rules"
	"lapse/internal/preflight/service"
	"lapse/internal/report/document"
)

// judged is a report of all kinds: a finding, an accepted one, a rule that could not judge, and a rule that found
// nothing.
func judged() *preflight.Report {
	r := preflight.Result{
		Service: "shop/web", Kind: "Service", Namespace: "shop", Name: "web", Rules: rules.All(), Place: &manifest.Place{File: "web.yaml", Line: 2},
		Unjudged: []rules.Unjudged{{Rule: "LP03", Name: "no-budget", Why: "no right to list poddisruptionbudgets.policy"}},
	}
	command := "sh -c \x1b[31mred\n" + strings.Repeat("x", 500)
	f := preflight.Finding{
		Finding: rules.Finding{
			Rule: "LP08", Name: "fragile-hook", Severity: rules.MayLose, Prediction: "the hook fails", Fix: "sleep",
			Evidence: []service.Evidence{{Object: "Deployment/web", Field: "spec.template.spec.containers[web].command", Value: command}},
		},
		Place: &manifest.Place{File: "a b.yaml", Line: 7}, At: []manifest.Place{{File: "a b.yaml", Line: 7}},
	}
	r.Findings = append(r.Findings, f)
	f.Rule, f.Name, f.Accepted = "LP05", "no-prestop", "it drains"
	r.Accepted = append(r.Accepted, f)
	report := &preflight.Report{SchemaVersion: 1, Tool: preflight.Tool{Name: "lapse", Version: "v1"}, Services: []preflight.Result{r}}
	report.Conclude("may-lose")
	return report
}

func write(t *testing.T, format string, r *preflight.Report) []byte {
	t.Helper()
	b := new(bytes.Buffer)
	for _, f := range Formats {
		if f.Name == format {
			if err := f.Write(b, r, document.Screen{Unicode: true, Width: 200}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.Bytes()
}

func TestTheTableHasNothingThatATerminalObeysAndCutsLongValues(t *testing.T) {
	text := string(write(t, "table", judged()))
	if strings.Contains(text, "\x1b") || !strings.Contains(text, "…") {
		t.Errorf("%q", text)
	}
	if !strings.Contains(text, "LP05 no-prestop of Deployment/web: it drains") || !strings.Contains(text, "LP03: no right to list") {
		t.Error(text)
	}
}

func TestJUnitIsReadAsItIsMeant(t *testing.T) {
	suites, err := junit.Ingest(write(t, "junit", judged()))
	if err != nil || len(suites) != 1 {
		t.Fatal(suites, err)
	}
	got := map[junit.Status][]string{}
	for _, c := range suites[0].Tests {
		got[c.Status] = append(got[c.Status], c.Name)
	}
	if len(got[junit.StatusFailed]) != 1 || got[junit.StatusFailed][0] != "LP08 fragile-hook: Deployment/web" || len(got[junit.StatusSkipped]) != 1 || got[junit.StatusSkipped][0] != "LP03 no-budget: Service/web" || len(got[junit.StatusPassed]) != len(rules.All())-2 {
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
	if err := json.Unmarshal(write(t, "sarif", judged()), &document); err != nil {
		t.Fatal(err)
	}
	results := document.Runs[0].Results
	if len(results) != 2 || results[0].RuleID != "LP08" || results[0].Level != "warning" || results[0].Suppressions != nil || results[1].Suppressions[0].Justification != "it drains" {
		t.Errorf("%+v", document)
	}
}

func TestTheTableKeepsToTheScreen(t *testing.T) {
	r, b := judged(), new(strings.Builder)
	if err := writeTable(b, r, document.Screen{Width: 60}); err != nil {
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

// What GitHub documents: it refuses a file in which a result has no physical location, or one without a line.
// https://docs.github.com/en/code-security/reference/code-scanning/sarif-support-for-code-scanning
func TestSARIFHasWhatGitHubNeeds(t *testing.T) {
	text := `apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 80}], sessionAffinity: ClientIP}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, ports: [{containerPort: 80}], imge: x}]}
`
	first := sarifOf(t, text)
	moved := sarifOf(t, "# a comment\n\n"+strings.Replace(text, "spec:\n", "# and another\nspec:\n", 1))
	if len(first.Runs[0].Results) < 4 {
		t.Fatalf("%d results", len(first.Runs[0].Results))
	}
	d := first.Runs[0].Tool.Driver
	if first.Version != "2.1.0" || first.Schema == "" || d.Name == "" || d.Version == "" {
		t.Errorf("%+v", d)
	}
	for _, r := range d.Rules {
		if r.ID == "" || r.Name == "" || r.ShortDescription.Text == "" || r.FullDescription.Text == "" || r.Help.Text == "" {
			t.Errorf("rule %+v", r)
		}
	}
	unique := map[string]bool{}
	for i, r := range first.Runs[0].Results {
		if d.Rules[r.RuleIndex].ID != r.RuleID || !slices.Contains([]string{"error", "warning", "note"}, r.Level) || r.Message.Text == "" {
			t.Errorf("%+v", r)
		}
		if len(r.Locations) == 0 {
			t.Fatalf("%s has no location", r.RuleID)
		}
		for _, l := range slices.Concat(r.Locations, r.RelatedLocations) {
			uri, err := url.Parse(l.PhysicalLocation.ArtifactLocation.URI)
			if err != nil || uri.String() != "deploy/a%20b.yaml" || l.PhysicalLocation.Region.StartLine < 1 {
				t.Errorf("%s: %+v", r.RuleID, l)
			}
		}
		hash := r.PartialFingerprints.PrimaryLocationLineHash
		if hash == "" || unique[hash] || hash != moved.Runs[0].Results[i].PartialFingerprints.PrimaryLocationLineHash {
			t.Errorf("%s: fingerprint %q, again %v, %q where lines have moved", r.RuleID, hash, unique[hash], moved.Runs[0].Results[i].PartialFingerprints.PrimaryLocationLineHash)
		}
		unique[hash] = true
		if r.Locations[0].PhysicalLocation.Region.StartLine == moved.Runs[0].Results[i].Locations[0].PhysicalLocation.Region.StartLine {
			t.Errorf("%s: the line has not moved", r.RuleID)
		}
	}
}

type sarifText struct{ Text string }

type sarifLocation struct {
	PhysicalLocation struct {
		ArtifactLocation struct{ URI string }
		Region           struct{ StartLine int }
	}
}

type sarifFile struct {
	Schema  string `json:"$schema"`
	Version string
	Runs    []struct {
		Tool struct {
			Driver struct {
				Name, Version string
				Rules         []struct {
					ID, Name                                string
					ShortDescription, FullDescription, Help sarifText
				}
			}
		}
		Results []struct {
			RuleID, Level               string
			RuleIndex                   int
			Message                     sarifText
			Locations, RelatedLocations []sarifLocation
			PartialFingerprints         struct{ PrimaryLocationLineHash string }
		}
	}
}

// sarifOf is what is said of a file.
func sarifOf(t *testing.T, text string) (is sarifFile) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("deploy", 0o755), os.WriteFile("deploy/a b.yaml", []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	m := manifest.Read([]string{"deploy"}, nil, manifest.Strict, preflight.Ignored)
	states, err := m.States("", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := preflight.JudgeAll(states, preflight.Choice{})
	r.Tool.Version = "v1"
	r.Locate(m)
	r.Problems = m.Problems
	r.Conclude("may-lose")
	if err := json.Unmarshal(write(t, "sarif", r), &is); err != nil {
		t.Fatal(err)
	}
	return is
}

// Many readers of JUnit show only the first failure of a case.
func TestJUnitHasACaseForEachObjectWithOneFailure(t *testing.T) {
	r := judged()
	s := &r.Services[0]
	twice, other := s.Findings[0], s.Findings[0]
	other.Evidence = []service.Evidence{{Object: "Deployment/api", Field: "spec", Value: "x"}}
	s.Findings = append(s.Findings, twice, other)
	suites, err := junit.Ingest(write(t, "junit", r))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range suites[0].Tests {
		if c.Status == junit.StatusFailed {
			names = append(names, c.Name+" "+c.Properties["file"]+":"+c.Properties["line"])
		}
	}
	want := []string{"LP08 fragile-hook: Deployment/web a b.yaml:7", "LP08 fragile-hook: Deployment/api a b.yaml:7"}
	if !slices.Equal(names, want) || bytes.Count(write(t, "junit", r), []byte("<failure")) != 2 {
		t.Errorf("%q", names)
	}
}
