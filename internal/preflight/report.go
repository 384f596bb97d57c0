package preflight

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/quantity"
)

// schemaVersion is that of the report as JSON. It changes where a field gets another meaning or goes.
const schemaVersion = 1

// A Report is all that one call says: of each Service, and of the files.
type Report struct {
	SchemaVersion int       `json:"schemaVersion"`
	Tool          Tool      `json:"tool"`
	Verdict       Verdict   `json:"verdict"`
	Services      []Result  `json:"services"`
	Problems      []Problem `json:"problems"` // what could not be read, or what the API server does not take
	Notes         []string  `json:"notes"`    // what was passed over, and what else is to be known

	At   time.Time     `json:"-"` // when it was made
	Took time.Duration `json:"-"`
}

// A Tool says what made a report.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A Verdict is what all of a report comes to.
type Verdict struct {
	Result   Outcome          `json:"result"`
	ExitCode int              `json:"exitCode"`
	Summary  string           `json:"summary"` // in one line
	FailOn   Threshold        `json:"failOn"`
	Services int              `json:"services"` // how many were judged
	Failed   int              `json:"failed"`   // how many of them have a finding that fails the check
	Unknown  int              `json:"unknown"`  // of how many too little is known
	Findings map[Severity]int `json:"findings"` // each once, also where several Services have it
	Accepted int              `json:"accepted"`
	Problems int              `json:"problems"` // warnings left out
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

// Thresholds lists them. Each fails on what those before it fail on.
var Thresholds = []Threshold{"will-lose", "will-block", "may-lose", "none"}

// fails reports whether a finding of a severity fails the check.
func (t Threshold) fails(s Severity) bool {
	return t != "none" && s.Fails() && slices.Index(severities, s) <= slices.Index(severities, Severity(t))
}

// nothingKnown is no rule to be asked: it stands for all that could not be.
var nothingKnown = Rule{
	ID: "LP00", Name: "nothing-known",
	Doc: "Nothing is known of the Pods behind a Service, so that no rule could judge them.",
}

// blindFor returns why nothing is known of the Pods behind a Service, "" if something is.
func (s *State) blindFor() string { return s.lacks(TemplatesFact) }

// JudgeAll asks the rules that are chosen about each Service. What is accepted by annotation is accepted.
func JudgeAll(states []*State, chosen Choice) *Report {
	r := &Report{SchemaVersion: schemaVersion, Services: []Result{}, Problems: []Problem{}, Notes: []string{}}
	for _, s := range states {
		result := Judge(s)
		if why := result.blindFor; why != "" && len(s.Service.Spec.Selector) > 0 { // without a selector LP13 says it
			result.Findings = append(result.Findings, Finding{
				Rule: nothingKnown.ID, Name: nothingKnown.Name, Severity: Blind, Prediction: "nothing is known of the Pods behind the Service: " + why,
				Evidence: []Evidence{{"Service/" + s.Service.Name, "spec.selector", labelText(s.Service.Spec.Selector)}},
				Fix:      "add what makes these Pods with another -f, or accept that they are not judged",
			})
		}
		chosen.keep(&result)
		result.acceptAnnotated(s)
		r.Services = append(r.Services, result)
	}
	return r
}

// Locate says where the evidence of each finding stands in the files.
func (r *Report) Locate(m *Manifests) {
	for i := range r.Services {
		s := &r.Services[i]
		if p, ok := m.place(s.kind, s.namespace, s.name, "metadata.name"); ok {
			s.Place = &p
		}
		for _, list := range [][]Finding{s.Findings, s.Accepted} {
			for k := range list {
				list[k].locate(m, s)
			}
		}
	}
}

func (f *Finding) locate(m *Manifests, of *Result) {
	f.at = make([]Place, len(f.Evidence))
	for i, e := range f.Evidence {
		kind, name, _ := strings.Cut(e.Object, "/")
		p, ok := m.place(kind, of.namespace, name, e.Field)
		if !ok {
			continue
		}
		f.at[i] = p
		if f.Place == nil && i >= f.main() {
			f.Place = &p
		}
	}
	if f.Place == nil {
		f.Place = of.Place
	}
}

// main is the number of the evidence that a finding is mostly about: not how long routes take, nor the Service where
// something else is there.
func (f *Finding) main() int {
	about := func(e Evidence) bool { return e.Object != "cluster" }
	i := slices.IndexFunc(f.Evidence, func(e Evidence) bool { return about(e) && !strings.HasPrefix(e.Object, "Service/") })
	if i < 0 {
		i = slices.IndexFunc(f.Evidence, about)
	}
	return max(i, 0)
}

// object is what a finding is about, such as Deployment/web.
func (f *Finding) object() string {
	if len(f.Evidence) == 0 {
		return ""
	}
	return f.Evidence[f.main()].Object
}

// MarshalJSON adds where the evidence stands.
func (f Finding) MarshalJSON() ([]byte, error) {
	type located struct {
		Evidence
		*Place
	}
	type plain Finding
	evidence := []located{}
	for i, e := range f.Evidence {
		is := located{Evidence: e}
		if i < len(f.at) && f.at[i].Line > 0 {
			is.Place = &f.at[i]
		}
		evidence = append(evidence, is)
	}
	return json.Marshal(struct {
		plain
		Object   string    `json:"object,omitempty"`
		Evidence []located `json:"evidence"`
	}{plain(f), f.object(), evidence})
}

// fingerprint tells a finding from others of a namespace, whatever the lines that it stands in. The same finding of
// several Services is one.
func (f *Finding) fingerprint(namespace string) string {
	parts := []string{f.Rule, namespace, f.object()}
	if len(f.Evidence) > 0 {
		parts = append(parts, f.Evidence[f.main()].Field)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Conclude counts what was found, and decides.
func (r *Report) Conclude(failOn Threshold) {
	v := Verdict{FailOn: failOn, Services: len(r.Services), Findings: map[Severity]int{}}
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
			key := f.fingerprint(s.namespace) + f.Prediction
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
	for _, s := range severities {
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

// failsOn reports whether a Service has a finding that fails the check.
func (r *Result) failsOn(t Threshold) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return t.fails(f.Severity) })
}

// unknown reports whether nothing is known of a Service's Pods, and nobody has accepted that.
func (r *Result) unknown() bool {
	return r.blindFor != "" && slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Blind })
}

// title is what a result is about, as kubectl takes it.
func (r *Result) title() string {
	text := "svc/" + r.name
	if r.kind != "Service" {
		text = strings.ToLower(r.kind) + "/" + r.name
	}
	if r.namespace != "" {
		text += " -n " + r.namespace
	}
	return text
}

// A Choice is of rules: those that are named, without those to skip.
type Choice struct{ rules []Rule }

// Choose chooses rules by their ID or name. None named means all.
func Choose(only, skip []string) (Choice, error) {
	all := slices.Concat([]Rule{nothingKnown}, rules)
	named := func(names []string) ([]string, error) {
		var ids []string
		for _, name := range names {
			id := ruleID(name)
			if id == "" {
				return nil, noSuchRule(name)
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
	wanted, err := named(only)
	if err != nil {
		return Choice{}, err
	}
	unwanted, err := named(skip)
	if err != nil {
		return Choice{}, err
	}
	return Choice{slices.DeleteFunc(all, func(r Rule) bool {
		return len(wanted) > 0 && r.ID != nothingKnown.ID && !slices.Contains(wanted, r.ID) || slices.Contains(unwanted, r.ID)
	})}, nil
}

// has reports whether a rule is chosen.
func (c Choice) has(id string) bool {
	return c.rules == nil || slices.ContainsFunc(c.rules, func(r Rule) bool { return r.ID == id })
}

// keep leaves in a result what the chosen rules say.
func (c Choice) keep(r *Result) {
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return !c.has(f.Rule) })
	r.Unjudged = slices.DeleteFunc(r.Unjudged, func(u Unjudged) bool { return !c.has(u.Rule) })
	r.rules = slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !c.has(r.ID) })
}

// ruleID returns the ID of a rule that is named by it or by its name; "" if there is none.
func ruleID(name string) string {
	for _, r := range slices.Concat([]Rule{nothingKnown}, rules) {
		if strings.EqualFold(name, r.ID) || strings.EqualFold(name, r.Name) {
			return r.ID
		}
	}
	return ""
}

func noSuchRule(name string) error {
	var names []string
	for _, r := range rules {
		names = append(names, r.Name)
	}
	text := "LP05 or no-prestop, for example"
	if near := nearest(name, names); near != "" {
		text = near
	}
	return fmt.Errorf("there is no rule %q: did you mean %s?", name, cmp.Or(text))
}
