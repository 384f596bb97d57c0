package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/service"
)

// The manifests of testdata/public are modelled on public projects. Their first lines are the key, written by hand
// before preflight was run on them: what must be said of each Service, what is fair to say, and what cannot be known
// (blind). Beside each is what preflight says. docs/measured/preflight.md has the score.
func TestPublic(t *testing.T) {
	paths, err := filepath.Glob("testdata/public/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			m := manifest.Read([]string{path}, nil, manifest.Strict, Ignored)
			if err := m.Err(); err != nil {
				t.Fatal(err)
			}
			states, err := m.States("", nil)
			if err != nil {
				t.Fatal(err)
			}
			key := keyOf(t, string(text))
			var b strings.Builder
			for _, s := range states {
				b.WriteString(score(Judge(s), "svc/"+s.Service.Name, key))
			}
			for _, k := range key {
				if !k.met && k.kind != "fair" {
					fmt.Fprintf(&b, "MISSED %s\n", k.text)
				}
			}
			golden := strings.TrimSuffix(path, ".yaml") + ".says"
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A keyLine is what is to be said of a Service by a rule, of an object or one of its fields.
type keyLine struct {
	text, kind, service, rule, severity, object string
	met                                         bool
}

func keyOf(t *testing.T, manifest string) (key []*keyLine) {
	t.Helper()
	for line := range strings.Lines(manifest) {
		words := strings.Fields(strings.TrimPrefix(line, "#"))
		if !strings.HasPrefix(line, "#") || !slices.Contains([]string{"must", "fair", "blind"}, words[0]) {
			continue
		}
		k := &keyLine{text: strings.Join(words, " "), kind: words[0], service: words[1], rule: words[2]}
		rest := words[3:]
		if k.kind != "blind" {
			k.severity, rest = rest[0], rest[1:]
		}
		k.object = rest[0]
		key = append(key, k)
	}
	return key
}

// score lists what is said of a Service, each finding with what the key has for it.
func score(r Result, name string, key []*keyLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", name, r.Endpoints)
	for _, f := range r.Findings {
		mark := "beyond"
		for _, k := range key {
			if !k.met && k.kind != "blind" && k.service == name && k.rule == f.Rule && k.severity == string(f.Severity) && isAbout(f, k.object) {
				k.met, mark = true, k.kind
				break
			}
		}
		fmt.Fprintf(&b, "%-6s %s %s: %s\n", mark, f.Rule, f.Severity, f.Prediction)
	}
	for _, u := range r.Unjudged {
		for _, k := range key {
			if k.kind == "blind" && k.service == name && k.rule == u.Rule && strings.Contains(u.Why, k.object) {
				k.met = true
				fmt.Fprintf(&b, "%-6s %s: %s\n", k.kind, u.Rule, u.Why)
			}
		}
	}
	return b.String()
}

func isAbout(f Finding, object string) bool {
	return strings.Contains(f.Prediction, object) || slices.ContainsFunc(f.Evidence, func(e service.Evidence) bool {
		return e.Object == object || strings.HasPrefix(e.Field, object) || strings.Contains(e.Field, "."+object)
	})
}
