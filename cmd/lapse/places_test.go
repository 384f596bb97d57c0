package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lapse/deploy"
	"lapse/run"
)

// sample is a value of a flag that is not its default.
func sample(t *testing.T, f *pflag.Flag) string {
	t.Helper()
	if v, ok := map[string]string{
		"target": "new", "pacing": "precise", "fail-if": "failed>7", "output": "json", "scheme": "https", "header": "X-Team: blue", "method": "PUT",
		"expect-status": "201", "echo": "PONG", "hammer": "-c 3", "watch": "svc/db", "min-coverage": "90%", "host": "shop.example", "dashboard": "127.0.0.1:0", "cpu": "700m",
	}[f.Name]; ok {
		return v
	}
	v, ok := map[string]string{"bool": "true", "int": "3", "float64": "7", "duration": "7s", "string": "seven", "stringArray": "seven", "stringSlice": "seven"}[f.Value.Type()]
	if !ok {
		t.Fatalf("--%s is of type %s: give it a sample", f.Name, f.Value.Type())
	}
	return v
}

// verbAt is the verb whose flags are given for a run at a place, with the target and what else makes it one.
func verbAt(at place) (verb *cobra.Command, o *run.Options, target string) {
	o = &run.Options{YAML: at == inYAML}
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
			o.Args = []string{target}
			if err := o.CheckSubjects(); err != nil {
				t.Fatal(err)
			}
			got := placeOf(o)
			if f.Name != "watch" && f.Name != "here" && got != at {
				t.Fatalf("--%s: the run is %s, not %s", f.Name, got, at)
			}
			err := checkPlace(o)
			if err == nil && used&got == 0 {
				t.Errorf("--%s is ignored on %s without a word", f.Name, got)
			}
			if err != nil && (used&got != 0 && f.Name != "scheme" || !strings.Contains(err.Error(), "--"+f.Name) || run.HintOf(err) == "" || run.ExitCodeOf(err) != run.ExitUsage) {
				t.Errorf("--%s on %s: %v, hint %q", f.Name, got, err, run.HintOf(err))
			}
		})
	}
	for name := range usedIn {
		if !known[name] {
			t.Errorf("places.go declares --%s, which is no flag", name)
		}
	}
}

// What has an effect in the cluster changes the Job, or is the workstation's own business.
func TestEachFlagReachesTheJob(t *testing.T) {
	ours := []string{"out", "output", "dashboard", "no-capture", "kubeconfig", "context", "ca-file"}
	render := func(set func(*pflag.FlagSet)) string {
		verb, o, target := verbAt(inJob)
		set(verb.Flags())
		o.ID, o.Args = "x", []string{target}
		if err := errors.Join(o.CheckSubjects(), o.CheckNumbers(), o.CheckSecrets()); err != nil {
			t.Fatal(err)
		}
		namespace := o.Kube.Namespace
		if namespace == "" {
			namespace = "shop"
		}
		var yaml bytes.Buffer
		if err := deploy.WriteYAML(&yaml, o.JobConfig(namespace).Objects().All()...); err != nil {
			t.Fatal(err)
		}
		return yaml.String()
	}
	plain := render(func(*pflag.FlagSet) {})
	verb, _, _ := verbAt(inJob)
	verb.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || usedIn[f.Name]&inJob == 0 || slices.Contains(ours, f.Name) {
			return
		}
		if changed := render(func(set *pflag.FlagSet) {
			if err := set.Set(f.Name, sample(t, f)); err != nil {
				t.Fatal(err)
			}
		}); changed == plain {
			t.Errorf("--%s does not reach the Job", f.Name)
		}
	})
}

// What must not be read reaches the agent, and stands in nothing but a Secret.
func TestSecretsStandInNoArgument(t *testing.T) {
	verb, o, target := verbAt(inJob)
	for name, value := range map[string]string{
		"header": "Authorization: Bearer s3cret", "hammer": `-c 2 -H "Cookie: s3cret"`, "rate": "50",
	} {
		if err := verb.Flags().Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	o.ID = "x"
	if err := o.Check([]string{target}, []string{"sh", "-c", "deploy --token s3cret"}); err != nil {
		t.Fatal(err)
	}
	config := o.JobConfig("shop")
	objects := config.Objects()
	objects.Secret = nil
	var yaml bytes.Buffer
	if err := deploy.WriteYAML(&yaml, objects.All()...); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(yaml.String(), "s3cret") || strings.Contains(yaml.String(), "deploy --token") {
		t.Errorf("a secret stands in the Job:\n%s", &yaml)
	}

	t.Setenv(deploy.EnvListen, "127.0.0.1:0")
	t.Setenv(deploy.EnvHold, "1m")
	t.Setenv(deploy.EnvDeadline, "2h")
	t.Setenv(deploy.EnvPrivate, string(config.Private))
	there := newRun()
	there.ResetFlags()
	var agent run.Options
	runFlags(&agent, there)
	if err := there.ParseFlags(config.Args[1:]); err != nil {
		t.Fatal(err)
	}
	if err := agent.Check([]string{target}, nil); err != nil {
		t.Fatal(err)
	}
	if got := agent.Header.Get("Authorization"); got != "Bearer s3cret" || agent.Hammer != `-c 2 -H "Cookie: s3cret"` || agent.Rate != 50 || !agent.ExternalCommand {
		t.Errorf("the agent has Authorization %q, hammer %q, rate %v", got, agent.Hammer, agent.Rate)
	}
}

// The keys of a Secret are headers. One that cannot be sent is named, and its value is not shown.
func TestHeadersComeFromSecrets(t *testing.T) {
	var o run.Options
	if err := o.ReadPrivate([]string{"LAPSE_HEADER_1_X-Team=blue", "LAPSE_HEADER_0_Authorization=Bearer s3cret\n", "PATH=/"}); err != nil {
		t.Fatal(err)
	}
	o.Scheme, o.Method = "http", "GET"
	if err := o.CheckRequest(); err != nil {
		t.Fatal(err)
	}
	if o.Header.Get("Authorization") != "Bearer s3cret" || o.Header.Get("X-Team") != "blue" || len(o.Header) != 2 {
		t.Errorf("headers %v", o.Header)
	}
	o.Headers = []string{"Authorization: s3cret\x01"}
	if err := o.CheckRequest(); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "Authorization") {
		t.Errorf("a value that cannot be sent: %v", err)
	}
	t.Setenv(deploy.EnvPrivate, "s3cret")
	if err := o.ReadPrivate(nil); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a Secret that cannot be read: %v", err)
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
		o.Args, o.Command = []string{test.target}, []string{"kubectl", "drain", "node1"}
		if err := o.CheckSubjects(); err != nil {
			t.Fatal(err)
		}
		o.AvoidDrained()
		if !slices.Equal(o.AvoidNodes, test.nodes) || len(o.Notes) > 0 {
			t.Errorf("%s %q: avoids %q, notes %q", test.target, test.flags, o.AvoidNodes, o.Notes)
		}
	}
	o := parsed(t)
	o.Args, o.Command = []string{"svc/web"}, []string{"sh", "-c", "./upgrade --token s3cret"}
	if err := o.CheckSubjects(); err != nil {
		t.Fatal(err)
	}
	o.AvoidDrained()
	if len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "--avoid-node") || strings.Contains(o.Notes[0], "s3cret") {
		t.Errorf("notes %q", o.Notes)
	}
}
