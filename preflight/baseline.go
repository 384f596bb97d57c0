package preflight

import (
	"fmt"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"lapse/hint"
)

// A Baseline lists the findings that somebody has accepted, with the reason for each. Its file is YAML or JSON:
//
//	accepted:
//	- rule: LP05
//	  object: Deployment/web      # of any of its evidence; left out: whatever the object
//	  reason: the server drains for 8 s after SIGTERM
type Baseline struct {
	Accepted []Acceptance `json:"accepted"`
}

// An Acceptance is about the findings of one rule.
type Acceptance struct {
	Rule   string `json:"rule"`
	Object string `json:"object,omitempty"`
	Reason string `json:"reason"`
}

const baselineHint = "accepted is a list of {rule: LP05, object: Deployment/web, reason: why}; object may be left out"

// ReadBaseline reads a file. One without a reason, or with a rule that does not exist, is refused.
func ReadBaseline(path string) (Baseline, error) {
	var b Baseline
	text, err := os.ReadFile(path)
	if err != nil {
		return b, fmt.Errorf("read baseline: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &b); err != nil {
		return b, hint.Errorf(baselineHint, "read baseline %s: %w", path, err)
	}
	for i, a := range b.Accepted {
		if !slices.ContainsFunc(rules, func(r Rule) bool { return r.ID == a.Rule }) {
			return b, hint.Errorf(baselineHint, "baseline %s: entry %d: there is no rule %q", path, i+1, a.Rule)
		}
		if a.Reason == "" {
			return b, hint.Errorf(baselineHint, "baseline %s: entry %d (%s) has no reason", path, i+1, a.Rule)
		}
	}
	return b, nil
}

// Accept moves what the baseline accepts out of the findings. An entry that fits none is listed, so that it does not
// outlive its reason.
func (r *Result) Accept(b Baseline) {
	for _, a := range b.Accepted {
		fits := func(f Finding) bool {
			return f.Rule == a.Rule && (a.Object == "" || slices.ContainsFunc(f.Evidence, func(e Evidence) bool { return e.Object == a.Object }))
		}
		before := len(r.Accepted)
		for _, f := range r.Findings {
			if fits(f) {
				f.Accepted = a.Reason
				r.Accepted = append(r.Accepted, f)
			}
		}
		r.Findings = slices.DeleteFunc(r.Findings, fits)
		if len(r.Accepted) == before {
			r.Notes = append(r.Notes, fmt.Sprintf("the baseline accepts %s, which was not found", a.what()))
		}
	}
}

func (a Acceptance) what() string {
	if a.Object == "" {
		return a.Rule
	}
	return a.Rule + " of " + a.Object
}
