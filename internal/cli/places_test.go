package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lapse/internal/hint"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
)

// sample returns a value of a flag that is not its default.
func sample(t *testing.T, f *pflag.Flag) string {
	t.Helper()
	if v, ok := map[string]string{
		"target": "new", "pacing": "precise", "fail-if": "failed>7", "output": "json", "scheme": "https", "header": "X-Team: blue", "method": "PUT",
		"expect-status": "201", "echo": "PONG", "hammer": "-c 3", "watch": "svc/db", "min-coverage": "90%", "min-node-coverage": "0", "host": "shop.example", "dashboard": "127.0.0.1:0", "metrics": "127.0.0.1:0", "cpu": "700m",
	}[f.Name]; ok {
		return v
	}
	v, ok := map[string]string{"bool": "true", "int": "3", "float64": "7", "duration": "7s", "string": "seven", "stringArray": "seven", "stringSlice": "seven"}[f.Value.Type()]
	if !ok {
		t.Fatalf("--%s is of type %s: give it a sample", f.Name, f.Value.Type())
	}
	return v
}

// verbAt returns a verb with the flags of a run, whose options and target make it a run at a place.
func verbAt(at place) (verb *cobra.Command, o *spec.Options, target string) {
	o = &spec.Options{YAML: at == inYAML}
	verb = &cobra.Command{}
	runFlags(o, verb)
	verb.Flags().Bool("read-nodes", false, "")
	switch at {
	case hereURL:
		return verb, o, "http://127.0.0.1/"
	case hereService:
		o.Here = true
	}
	return verb, o, "svc/web"
}

var places = []place{hereURL, hereService, inJob, inYAML}

// A flag that has no effect where the run takes place is refused, and names itself; one that has is not.
func TestAFlagWithoutEffectIsRefused(t *testing.T) {
	known := map[string]bool{}
	for _, at := range places {
		verb, _, _ := verbAt(at)
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			known[f.Name] = true
			used, declared := usedIn[f.Name]
			if !declared {
				t.Errorf("say in places.go where --%s has an effect", f.Name)
				return
			}
			verb, o, target := verbAt(at)
			o.Command = []string{"true"}
			if err := verb.Flags().Set(f.Name, sample(t, f)); err != nil {
				t.Fatal(err)
			}
			o.Given = given(verb.Flags())
			if o.Targets = []string{target}; o.Chooses() {
				o.Targets = nil
			}
			if err := o.CheckTargets(); err != nil {
				t.Fatal(err)
			}
			if at == hereURL && o.Chooses() {
				return // a URL is a target: there is no such run
			}
			got := placeOf(o)
			if f.Name != "watch" && f.Name != "here" && got != at {
				t.Fatalf("--%s: the run is %s, not %s", f.Name, got, at)
			}
			err := checkPlace(o)
			if err == nil && used&got == 0 {
				t.Errorf("--%s is ignored on %s without a word", f.Name, got)
			}
			if err != nil && (used&got != 0 && f.Name != "scheme" || !strings.Contains(err.Error(), "--"+f.Name) || hint.Of(err) == "" || exit.CodeOf(err) != exit.Usage) {
				t.Errorf("--%s on %s: %v, hint %q", f.Name, got, err, hint.Of(err))
			}
		})
	}
	for name := range usedIn {
		if !known[name] {
			t.Errorf("places.go declares --%s, which is no flag", name)
		}
	}
}

func TestOnlyAJobHasNodesToAvoid(t *testing.T) {
	for _, test := range []struct {
		target string
		flags  []string
		nodes  []string
		note   bool
	}{
		{"svc/web", nil, []string{"node1"}, false},
		{"svc/web", []string{"--avoid-node=node2"}, []string{"node2"}, false},
		{"svc/web", []string{"--here"}, nil, false},
		{"http://127.0.0.1/", nil, nil, false},
	} {
		o := parsed(t, test.flags...)
		o.Targets, o.Command = []string{test.target}, []string{"kubectl", "drain", "node1"}
		if err := o.CheckTargets(); err != nil {
			t.Fatal(err)
		}
		o.AvoidDrained()
		if !slices.Equal(o.AvoidNodes, test.nodes) || len(o.Notes) > 0 {
			t.Errorf("%s %q: avoids %q, notes %q", test.target, test.flags, o.AvoidNodes, o.Notes)
		}
	}
	o := parsed(t)
	o.Targets, o.Command = []string{"svc/web"}, []string{"sh", "-c", "./upgrade --token s3cret"}
	if err := o.CheckTargets(); err != nil {
		t.Fatal(err)
	}
	o.AvoidDrained()
	if len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "--avoid-node") || strings.Contains(o.Notes[0], "s3cret") {
		t.Errorf("notes %q", o.Notes)
	}
}
