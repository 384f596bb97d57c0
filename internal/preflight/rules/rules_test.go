package rules

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"lapse/correlate/causes"
	"lapse/correlate/causes/rule"
	"lapse/internal/kube/kubetest"
	"lapse/internal/preflight/cluster"
	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/service"
)

var update = flag.Bool("update", false, "rewrite what the rules say in testdata")

// Each file of testdata is about one rule, by its name. Its sections are cases: what they are, whether the objects
// are read as manifests (-f) or from a cluster, and flags; the section "says" after each is what the rule says of it.
// A rule has cases in which it finds something, and their closest rivals, in which it must not.
func TestRules(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule.ID, func(t *testing.T) {
			path := filepath.Join("testdata", strings.ToLower(rule.ID)+".txtar")
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fires, rests := 0, 0
			for i := 0; i+1 < len(archive.Files); i += 2 {
				name, objects, want := archive.Files[i].Name, archive.Files[i].Data, &archive.Files[i+1]
				got := says(&rule, stateOf(t, name, objects))
				if *update {
					want.Data = []byte(got)
				}
				if diff := gocmp.Diff(string(want.Data), got); diff != "" {
					t.Errorf("%s (-want +got)\n%s", name, diff)
				}
				if strings.HasPrefix(got, "nothing") {
					rests++
				} else {
					fires++
				}
			}
			if fires == 0 || rests == 0 {
				t.Errorf("%s has %d cases in which the rule finds something and %d in which it does not: each is needed", path, fires, rests)
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// says is what one rule says of a state.
func says(rule *Rule, s *service.State) string {
	found, unjudged := Judge(s)
	var b strings.Builder
	for _, u := range unjudged {
		if u.Rule == rule.ID {
			fmt.Fprintf(&b, "not judged: %s\n", u.Why)
		}
	}
	for _, f := range found {
		if f.Rule == rule.ID {
			fmt.Fprintf(&b, "%s: %s\n", f.Severity, f.Prediction)
			for _, e := range f.Evidence {
				fmt.Fprintf(&b, "  why %s\n", e)
			}
			fmt.Fprintf(&b, "  fix %s\n", f.Fix)
			for _, name := range f.ConfirmedBy {
				if !isCause(name) {
					panic(rule.ID + ": no rule of correlate/causes knows " + name)
				}
			}
			fmt.Fprintf(&b, "  run names %s", cmp.Or(strings.Join(f.ConfirmedBy, ", "), "nothing"))
			if f.When != "" {
				fmt.Fprintf(&b, ", when %s", strings.TrimSpace(string(f.When)+" "+f.Node))
			}
			b.WriteByte('\n')
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// stateOf is the state of svc/web in a case.
func stateOf(t *testing.T, name string, objects []byte) *service.State {
	t.Helper()
	var states []*service.State
	var err error
	target := []service.Target{{Kind: "service", Name: "web"}}
	if words := strings.Fields(name); slices.Contains(words, "-f") {
		m := manifest.Read([]string{"-"}, strings.NewReader(string(objects)), manifest.Strict, manifest.Annotation{})
		if err := m.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		states, err = m.States("", target)
	} else {
		client := kubetest.Client(fake.NewClientset(decode(t, objects)...))
		states, err = cluster.States(t.Context(), client, "shop", target, cluster.Asking{Timeout: 10 * time.Second})
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	s := states[0]
	for _, word := range strings.Fields(name) {
		if node, ok := strings.CutPrefix(word, "--node="); ok {
			s.Node = node
		}
		if lag, ok := strings.CutPrefix(word, "--route-lag="); ok {
			s.RouteLag = service.Lag{Most: parse(t, lag)}
		}
		if longest, ok := strings.CutPrefix(word, "--longest-request="); ok {
			s.LongestRequest = parse(t, longest)
		}
	}
	return s
}

func parse(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func decode(t *testing.T, documents []byte) (all []runtime.Object) {
	t.Helper()
	for document := range strings.SplitSeq(string(documents), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		all = append(all, object)
	}
	return all
}

// isCause reports whether a run can name a cause: RULE, or RULE/REASON.
func isCause(name string) bool {
	name, reason, narrow := strings.Cut(name, "/")
	return slices.ContainsFunc(causes.Rules(), func(r rule.Rule) bool {
		return r.Name == name && (!narrow || slices.Contains(r.Reasons, reason))
	})
}

func TestWhatConfirmsAPredictionIsARuleOfCauses(t *testing.T) {
	for _, rule := range rules {
		for _, name := range slices.Concat(rule.ConfirmedBy, rule.Predicts) {
			if !isCause(name) {
				t.Errorf("%s: no rule of correlate/causes knows %q", rule.ID, name)
			}
		}
	}
}

func TestRulesAreInOrderAndEachIsOnce(t *testing.T) {
	ids := []string{}
	for _, rule := range rules {
		ids = append(ids, rule.ID)
	}
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("%v", ids)
	}
}
