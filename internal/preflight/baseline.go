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

const baselineHint = "accepted is a list of {rule: LP05, object: Deployment/web, reason: why}; service and container may be added, object left out"

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

// Accept moves what the baseline accepts out of the findings. An entry that fits none is listed, so that it does not
// outlive its reason.
func (r *Result) Accept(b Baseline) {
	for _, a := range b.Accepted {
		if !r.accept(a) {
			r.Notes = append(r.Notes, fmt.Sprintf("the baseline accepts %s, which was not found", a.what()))
		}
	}
}

// Accept does so for all Services.
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
	if service := strings.TrimPrefix(a.Service, "svc/"); service != "" && service != r.name && service != r.Service {
		return false
	}
	return a.Object == "" && a.Container == "" || slices.ContainsFunc(f.Evidence, func(e Evidence) bool {
		return (a.Object == "" || sameObject(a.Object, e.Object)) && (a.Container == "" || strings.Contains(e.Field, "ontainers["+a.Container+"]"))
	})
}

// shortKinds are what kubectl takes for kinds.
var shortKinds = map[string]string{
	"svc": "service", "po": "pod", "deploy": "deployment", "sts": "statefulset", "ds": "daemonset", "rs": "replicaset", "rc": "replicationcontroller",
	"ro": "rollout", "cj": "cronjob", "pdb": "poddisruptionbudget", "hpa": "horizontalpodautoscaler", "no": "node",
}

// kindWord is a kind in lower case and in the singular, of whatever form kubectl takes.
func kindWord(kind string) string {
	word, _, _ := strings.Cut(strings.ToLower(kind), ".")
	if long := shortKinds[word]; long != "" {
		return long
	}
	return strings.TrimSuffix(word, "s")
}

// sameObject compares objects, such as deploy/web and Deployment/web.
func sameObject(a, b string) bool {
	kind, name, ok := strings.Cut(a, "/")
	other, otherName, otherOK := strings.Cut(b, "/")
	return a == b || ok && otherOK && name == otherName && kindWord(kind) == kindWord(other)
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

// IgnoreAnnotation accepts findings where the object is: on a workload, its template or a Pod those of the object, on
// a Service all of that Service. Its value has a line, or a part up to a semicolon, for each reason:
//
//	lapse.dev/ignore: "LP05, LP09: the server drains for 8 s after SIGTERM"
const IgnoreAnnotation = "lapse.dev/ignore"

// ignored reads the annotation's value.
func ignored(value string) (all []Acceptance, wrong []error) {
	for entry := range strings.SplitSeq(strings.ReplaceAll(value, ";", "\n"), "\n") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		names, reason, _ := strings.Cut(entry, ":")
		if reason = strings.TrimSpace(reason); reason == "" {
			wrong = append(wrong, fmt.Errorf("%s has no reason for %s: write \"%s: why it is accepted\"", IgnoreAnnotation, names, names))
			continue
		}
		for name := range strings.SplitSeq(names, ",") {
			id := ruleID(strings.TrimSpace(name))
			if id == "" {
				wrong = append(wrong, fmt.Errorf("%s: %w", IgnoreAnnotation, noSuchRule(strings.TrimSpace(name))))
				continue
			}
			all = append(all, Acceptance{Rule: id, Reason: reason})
		}
	}
	return all, wrong
}

// acceptAnnotated accepts what the annotations of the objects do.
func (r *Result) acceptAnnotated(s *State) {
	accept := func(object string, annotations map[string]string) {
		all, wrong := ignored(annotations[IgnoreAnnotation])
		for _, err := range wrong {
			if s.knows(EndpointsFact) { // of manifests it is a problem with a line
				r.Notes = append(r.Notes, strings.TrimPrefix(object+": ", ": ")+err.Error())
			}
		}
		for _, a := range all {
			a.Object = object
			r.accept(a)
		}
	}
	accept("", s.Service.Annotations)
	for _, w := range slices.Concat(s.Workloads, s.Others) {
		accept(w.object(), w.Meta.Annotations)
		accept(w.object(), w.Template.Annotations)
	}
	for i := range s.Pods {
		accept("Pod/"+s.Pods[i].Name, s.Pods[i].Annotations)
	}
}

// Baseline returns one that accepts all that was found, and what was accepted before, with its reasons.
func (r *Report) Baseline() ([]byte, error) {
	var b Baseline
	for i := range r.Services {
		s := &r.Services[i]
		for _, f := range slices.Concat(s.Accepted, s.Findings) {
			a := Acceptance{Rule: f.Rule, Service: s.Service, Object: f.object(), Container: f.container(), Reason: cmp.Or(f.Accepted, "found when this baseline was written: say why it is accepted")}
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

// container is the one that a finding is about; "" if it is about none.
func (f *Finding) container() string {
	if len(f.Evidence) == 0 {
		return ""
	}
	_, rest, _ := strings.Cut(f.Evidence[f.main()].Field, "ontainers[")
	name, _, _ := strings.Cut(rest, "]")
	return name
}
