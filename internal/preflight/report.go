package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/quantity"
	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/rules"
	"lapse/internal/preflight/service"
)

// schemaVersion is the version of the report as JSON. It changes if a field gets another meaning or is removed.
const schemaVersion = 1

// A Report is all that one call of `lapse preflight` says: of each Service, and of the files.
type Report struct {
	SchemaVersion int                `json:"schemaVersion"`
	Tool          Tool               `json:"tool"`
	Verdict       Verdict            `json:"verdict"`
	Services      []Result           `json:"services"`
	Problems      []manifest.Problem `json:"problems"` // with the files
	Notes         []string           `json:"notes"`    // what was passed over, and what else is to be known

	At   time.Time     `json:"-"` // when it was made
	Took time.Duration `json:"-"`
}

// A Tool says what made a report.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A Verdict is the outcome of a report, and how it came about.
type Verdict struct {
	Result   Outcome                `json:"result"`
	ExitCode int                    `json:"exitCode"`
	Summary  string                 `json:"summary"` // in one line
	FailOn   Threshold              `json:"failOn"`
	Services int                    `json:"services"` // how many were judged
	Failed   int                    `json:"failed"`   // how many of them have a finding that fails the check
	Unknown  int                    `json:"unknown"`  // how many have Pods that nothing is known of
	Findings map[rules.Severity]int `json:"findings"` // each once, also if several Services have it
	Accepted int                    `json:"accepted"`
	Problems int                    `json:"problems"` // without warnings
}

// An Outcome is a verdict in a word.
type Outcome string

const (
	Pass       Outcome = "pass"
	Fail       Outcome = "fail"       // there are findings at or above the threshold
	Unknown    Outcome = "unknown"    // nothing is known of the Pods of a Service, and nobody has accepted that
	Unreadable Outcome = "unreadable" // some of what was to be read is not, or the API server does not take it
)

// A Threshold is the least severity that fails a check.
type Threshold string

// Thresholds lists them. Each fails on everything that the ones before it fail on, but for "none", which never fails.
var Thresholds = []Threshold{"will-lose", "will-block", "may-lose", "none"}

// Fails reports whether a finding of a severity fails the check.
func (t Threshold) Fails(s rules.Severity) bool {
	order := rules.Severities
	return t != "none" && s != rules.Blind && slices.Index(order, s) <= slices.Index(order, rules.Severity(t))
}

// NothingKnown is the rule of findings that no rule could judge. It is not asked.
var NothingKnown = rules.Rule{
	ID: "LP00", Name: "nothing-known",
	Doc: "Nothing is known of the Pods behind a Service, so that no rule could judge them.",
}

// JudgeAll asks the rules that are chosen about each Service. What is accepted by annotation is accepted.
func JudgeAll(states []*service.State, chosen Choice) *Report {
	r := &Report{SchemaVersion: schemaVersion, Services: []Result{}, Problems: []manifest.Problem{}, Notes: []string{}}
	for _, s := range states {
		result := Judge(s)
		if result.BlindFor != "" && len(s.Service.Spec.Selector) > 0 { // without a selector LP13 says it
			result.Findings = append(result.Findings, blind(s, result.BlindFor))
		}
		chosen.keep(&result)
		result.acceptAnnotated(s)
		r.Services = append(r.Services, result)
	}
	return r
}

// blind returns the finding that nothing is known of a Service's Pods.
func blind(s *service.State, why string) Finding {
	return Finding{Finding: rules.Finding{
		Rule:       NothingKnown.ID,
		Name:       NothingKnown.Name,
		Severity:   rules.Blind,
		Prediction: "nothing is known of the Pods behind the Service: " + why,
		Evidence:   []service.Evidence{s.At("spec.selector", service.LabelText(s.Service.Spec.Selector))},
		Fix:        "add what makes these Pods with another -f, or accept that they are not judged",
	}}
}

// Locate says where the evidence of each finding stands in the files.
func (r *Report) Locate(m *manifest.Manifests) {
	for i := range r.Services {
		s := &r.Services[i]
		if p, ok := m.Place(s.Kind, s.Namespace, s.Name, "metadata.name"); ok {
			s.Place = &p
		}
		for _, list := range [][]Finding{s.Findings, s.Accepted} {
			for k := range list {
				list[k].locate(m, s)
			}
		}
	}
}

// Conclude counts what was found, and decides.
func (r *Report) Conclude(failOn Threshold) {
	v := Verdict{FailOn: failOn, Services: len(r.Services), Findings: map[rules.Severity]int{}}
	known := map[string]bool{}
	clean := 0
	for i := range r.Services {
		s := &r.Services[i]
		v.Accepted += len(s.Accepted)
		switch {
		case s.failsOn(failOn):
			v.Failed++
		case s.unknown():
			v.Unknown++
		case len(s.Findings) == 0:
			clean++
		}
		for _, f := range s.Findings {
			key := f.Fingerprint(s.Namespace) + f.Prediction
			if !known[key] {
				known[key] = true
				v.Findings[f.Severity]++
			}
		}
	}
	for _, p := range r.Problems {
		if !p.Warning {
			v.Problems++
		}
	}
	switch {
	case v.Problems > 0:
		v.Result, v.ExitCode = Unreadable, 2
	case v.Failed > 0:
		v.Result, v.ExitCode = Fail, 3
	case v.Unknown > 0 && failOn != "none":
		v.Result, v.ExitCode = Unknown, 4
	default:
		v.Result = Pass
	}
	v.Summary = r.summary(v, clean)
	r.Verdict = v
}

// failsOn reports whether a Service has a finding that fails the check.
func (r *Result) failsOn(t Threshold) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return t.Fails(f.Severity) })
}

// unknown reports whether nothing is known of a Service's Pods, and nobody has accepted that.
func (r *Result) unknown() bool {
	blind := func(f Finding) bool { return f.Severity == rules.Blind }
	return r.BlindFor != "" && slices.ContainsFunc(r.Findings, blind)
}

// summary is the report in a line.
func (r *Report) summary(v Verdict, clean int) string {
	parts := []string{quantity.Count(v.Services, "Service") + " judged"}
	add := func(n int, text string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, text))
		}
	}
	total := 0
	var by []string
	for _, s := range rules.Severities {
		if n := v.Findings[s]; n > 0 {
			total += n
			by = append(by, fmt.Sprintf("%d %s", n, s))
		}
	}
	findings := "no findings"
	if total > 0 {
		findings = quantity.Count(total, "finding") + " (" + strings.Join(by, ", ") + ")"
	}
	parts = append(parts, findings)
	add(v.Accepted, "accepted")
	add(clean, "without a finding")
	add(v.Unknown, "with Pods of which nothing is known")
	if v.Problems > 0 {
		parts = append(parts, quantity.Count(v.Problems, "problem")+" in the files")
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(": %s, exit code %d", v.Result, v.ExitCode)
}
