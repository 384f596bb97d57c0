package preflight

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"lapse/internal/hint"
	"lapse/internal/hint/input"
	"lapse/internal/preflight/service"
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
	Rule      string `json:"rule"`                // by ID or name
	Service   string `json:"service,omitempty"`   // NAME or NAMESPACE/NAME; left out: of whatever Service
	Object    string `json:"object,omitempty"`    // KIND/NAME; left out: of whatever object
	Container string `json:"container,omitempty"` // left out: of whatever container
	Reason    string `json:"reason"`
}

const baselineHint = "accepted is a list of {rule: LP05, object: Deployment/web, reason: why}; " +
	"service and container may be added, object left out"

// ReadBaseline reads a file. One without a reason, or with a rule that does not exist, is refused.
func ReadBaseline(path string) (Baseline, error) {
	var b Baseline
	text, err := input.File(path, input.Manifests)
	if err != nil {
		return b, fmt.Errorf("read baseline: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &b); err != nil {
		return b, hint.Errorf(baselineHint, "read baseline %s: %w", path, err)
	}
	for i := range b.Accepted {
		a := &b.Accepted[i]
		id := ruleID(a.Rule)
		if id == "" {
			return b, hint.Errorf(baselineHint, "baseline %s: entry %d: %w", path, i+1, noSuchRule(a.Rule))
		}
		if a.Rule = id; a.Reason == "" {
			return b, hint.Errorf(baselineHint, "baseline %s: entry %d (%s) has no reason", path, i+1, a.Rule)
		}
	}
	return b, nil
}

// Accept moves findings that the baseline accepts to Accepted. An entry that fits none is noted, so that it is removed
// with its reason.
func (r *Result) Accept(b Baseline) {
	for _, a := range b.Accepted {
		if !r.accept(a) {
			r.Notes = append(r.Notes, fmt.Sprintf("the baseline accepts %s, which was not found", a.what()))
		}
	}
}

// Accept does the same for all Services of a report.
func (r *Report) Accept(b Baseline) {
	for _, a := range b.Accepted {
		found := false
		for i := range r.Services {
			found = r.Services[i].accept(a) || found
		}
		if !found {
			r.Notes = append(r.Notes, fmt.Sprintf("the baseline accepts %s, which was not found", a.what()))
		}
	}
}

// accept moves the findings that an entry fits, and reports whether there is one.
func (r *Result) accept(a Acceptance) bool {
	before := len(r.Accepted)
	fits := func(f Finding) bool { return a.fits(r, &f) }
	for _, f := range r.Findings {
		if fits(f) {
			f.Accepted = a.Reason
			r.Accepted = append(r.Accepted, f)
		}
	}
	r.Findings = slices.DeleteFunc(r.Findings, fits)
	return len(r.Accepted) > before
}

func (a Acceptance) fits(r *Result, f *Finding) bool {
	if f.Rule != a.Rule {
		return false
	}
	name := strings.TrimPrefix(a.Service, "svc/")
	if name != "" && name != r.Name && name != r.Service {
		return false
	}
	return a.Object == "" && a.Container == "" || slices.ContainsFunc(f.Evidence, a.isAbout)
}

// isAbout reports whether evidence is of the object and the container that the entry names.
func (a Acceptance) isAbout(e service.Evidence) bool {
	if a.Container != "" && !strings.Contains(e.Field, "ontainers["+a.Container+"]") {
		return false
	}
	return a.Object == "" || service.SameObject(a.Object, e.Object)
}

func (a Acceptance) what() string {
	text := a.Rule
	for _, of := range []string{a.Container, a.Object, a.Service} {
		if of != "" {
			text += " of " + of
		}
	}
	return text
}

// Baseline returns a baseline, as YAML, that accepts all findings. Those accepted before keep their reasons.
func (r *Report) Baseline() ([]byte, error) {
	const unexplained = "found when this baseline was written: say why it is accepted"
	var b Baseline
	for i := range r.Services {
		s := &r.Services[i]
		for _, f := range slices.Concat(s.Accepted, s.Findings) {
			a := Acceptance{
				Rule:      f.Rule,
				Service:   s.Service,
				Object:    f.Object(),
				Container: f.container(),
				Reason:    cmp.Or(f.Accepted, unexplained),
			}
			if !slices.Contains(b.Accepted, a) {
				b.Accepted = append(b.Accepted, a)
			}
		}
	}
	text, err := yaml.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode baseline: %w", err)
	}
	head := "# Findings of lapse preflight that are accepted, for --baseline: each with the reason.\n"
	return append([]byte(head), bytes.Replace(text, []byte("accepted: null"), []byte("accepted: []"), 1)...), nil
}
