package preflight

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/rules"
	"lapse/internal/preflight/service"
)

// A Result is what all rules say of a Service.
type Result struct {
	Service   string           `json:"service"` // NAMESPACE/NAME; a manifest without a namespace has only the name
	Node      string           `json:"node,omitempty"`
	Endpoints string           `json:"endpoints"` // how many there are and where, in words
	RouteLag  string           `json:"routeLag"`  // how long routes outlive a Pod, as assumed or given
	Findings  []Finding        `json:"findings"`
	Accepted  []Finding        `json:"accepted"` // findings that somebody has accepted
	Unjudged  []rules.Unjudged `json:"unjudged"`
	Notes     []string         `json:"notes"` // what was skipped, and what else is to be known

	Place *manifest.Place `json:"place,omitempty"` // of the Service, in the manifests

	Kind      string       `json:"-"` // of what is judged: a Service, or a workload without one
	Namespace string       `json:"-"`
	Name      string       `json:"-"`
	BlindFor  string       `json:"-"` // why nothing is known of the Pods; "" if something is
	Rules     []rules.Rule `json:"-"` // that are chosen
}

// A Finding is one prediction, and what became of it.
type Finding struct {
	rules.Finding
	Accepted string           `json:"accepted,omitempty"` // why the finding is accepted
	Place    *manifest.Place  `json:"place,omitempty"`    // where it stands in the manifests
	At       []manifest.Place `json:"-"`                  // of each of the evidence; the line is 0 if it is not known
}

// Judge asks every rule. The gravest findings come first.
func Judge(s *service.State) Result {
	found, unjudged := rules.Judge(s)
	r := Result{
		Service:   s.Name(),
		Node:      s.Node,
		Endpoints: s.Placement(),
		RouteLag:  s.RouteLag.String(),
		Findings:  []Finding{},
		Accepted:  []Finding{},
		Unjudged:  unjudged,
		Notes:     slices.Concat([]string{}, s.Notes),
		Kind:      cmp.Or(s.Unrouted, "Service"),
		Namespace: s.Service.Namespace,
		Name:      s.Service.Name,
		BlindFor:  s.Lacks(service.TemplatesFact),
		Rules:     rules.All(),
	}
	for _, f := range found {
		r.Findings = append(r.Findings, Finding{Finding: f})
	}
	return r
}

// Title names the Service or the workload as kubectl takes it: svc/web -n shop.
func (r *Result) Title() string {
	text := "svc/" + r.Name
	if r.Kind != "Service" {
		text = strings.ToLower(r.Kind) + "/" + r.Name
	}
	if r.Namespace != "" {
		text += " -n " + r.Namespace
	}
	return text
}

// main returns the index of the evidence that a finding is mostly about: not the route lag, and the Service only if
// there is nothing else.
func (f *Finding) main() int {
	about := func(e service.Evidence) bool { return e.Object != "cluster" }
	more := func(e service.Evidence) bool { return about(e) && !strings.HasPrefix(e.Object, "Service/") }
	i := slices.IndexFunc(f.Evidence, more)
	if i < 0 {
		i = slices.IndexFunc(f.Evidence, about)
	}
	return max(i, 0)
}

// Object returns what a finding is about, such as Deployment/web.
func (f *Finding) Object() string {
	if len(f.Evidence) == 0 {
		return ""
	}
	return f.Evidence[f.main()].Object
}

// container returns the container that a finding is about, "" if it is about none.
func (f *Finding) container() string {
	if len(f.Evidence) == 0 {
		return ""
	}
	_, rest, _ := strings.Cut(f.Evidence[f.main()].Field, "ontainers[")
	name, _, _ := strings.Cut(rest, "]")
	return name
}

// MarshalJSON adds where the evidence stands.
func (f Finding) MarshalJSON() ([]byte, error) {
	type located struct {
		service.Evidence
		*manifest.Place
	}
	type plain Finding
	evidence := []located{}
	for i, e := range f.Evidence {
		is := located{Evidence: e}
		if i < len(f.At) && f.At[i].Line > 0 {
			is.Place = &f.At[i]
		}
		evidence = append(evidence, is)
	}
	return json.Marshal(struct {
		plain
		Object   string    `json:"object,omitempty"`
		Evidence []located `json:"evidence"`
	}{plain(f), f.Object(), evidence})
}

// Fingerprint identifies a finding within a namespace. It does not depend on lines, nor on the Service: a finding that
// several Services share has one fingerprint.
func (f *Finding) Fingerprint(namespace string) string {
	parts := []string{f.Rule, namespace, f.Object()}
	if len(f.Evidence) > 0 {
		parts = append(parts, f.Evidence[f.main()].Field)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// locate says where the evidence stands.
func (f *Finding) locate(m *manifest.Manifests, of *Result) {
	f.At = make([]manifest.Place, len(f.Evidence))
	for i, e := range f.Evidence {
		kind, name, _ := strings.Cut(e.Object, "/")
		p, ok := m.Place(kind, of.Namespace, name, e.Field)
		if !ok {
			continue
		}
		f.At[i] = p
		if f.Place == nil && i >= f.main() {
			f.Place = &p
		}
	}
	if f.Place == nil {
		f.Place = of.Place
	}
}
