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
func verbAt(at place) (verb *cobra.Command, o *options, target string) {
	o = &options{yaml: at == inYAML}
	verb = &cobra.Command{}
	o.flags(verb)
	verb.Flags().Bool("read-nodes", false, "")
	switch at {
	case hereURL:
		return verb, o, "http://127.0.0.1/"
	case hereService:
		o.here = true
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
			o.command = []string{"true"}
			if err := verb.Flags().Set(f.Name, sample(t, f)); err != nil {
				t.Fatal(err)
			}
			o.args = []string{target}
			if err := o.checkSubjects(); err != nil {
				t.Fatal(err)
			}
			got := o.place()
			if f.Name != "watch" && f.Name != "here" && got != at {
				t.Fatalf("--%s: the run is %s, not %s", f.Name, got, at)
			}
			err := o.checkPlace()
			if err == nil && used&got == 0 {
				t.Errorf("--%s is ignored on %s without a word", f.Name, got)
			}
			if err != nil && (used&got != 0 && f.Name != "scheme" || !strings.Contains(err.Error(), "--"+f.Name) || hintOf(err) == "" || codeOf(err) != exitUsage) {
				t.Errorf("--%s on %s: %v, hint %q", f.Name, got, err, hintOf(err))
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
		o.id, o.args = "x", []string{target}
		if err := errors.Join(o.checkSubjects(), o.checkNumbers(), o.checkSecrets()); err != nil {
			t.Fatal(err)
		}
		namespace := o.kube.namespace
		if namespace == "" {
			namespace = "shop"
		}
		var yaml bytes.Buffer
		if err := deploy.WriteYAML(&yaml, o.jobConfig(namespace).Objects().All()...); err != nil {
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
	o.id = "x"
	if err := o.check([]string{target}, []string{"sh", "-c", "deploy --token s3cret"}); err != nil {
		t.Fatal(err)
	}
	config := o.jobConfig("shop")
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
	var agent options
	agent.flags(there)
	if err := there.ParseFlags(config.Args[1:]); err != nil {
		t.Fatal(err)
	}
	if err := agent.check([]string{target}, nil); err != nil {
		t.Fatal(err)
	}
	if got := agent.header.Get("Authorization"); got != "Bearer s3cret" || agent.hammer != `-c 2 -H "Cookie: s3cret"` || agent.rate != 50 || !agent.untilTold {
		t.Errorf("the agent has Authorization %q, hammer %q, rate %v", got, agent.hammer, agent.rate)
	}
}

// The keys of a Secret are headers. One that cannot be sent is named, and its value is not shown.
func TestHeadersComeFromSecrets(t *testing.T) {
	var o options
	if err := o.readPrivate([]string{"LAPSE_HEADER_1_X-Team=blue", "LAPSE_HEADER_0_Authorization=Bearer s3cret\n", "PATH=/"}); err != nil {
		t.Fatal(err)
	}
	o.scheme, o.method = "http", "GET"
	if err := o.checkRequest(); err != nil {
		t.Fatal(err)
	}
	if o.header.Get("Authorization") != "Bearer s3cret" || o.header.Get("X-Team") != "blue" || len(o.header) != 2 {
		t.Errorf("headers %v", o.header)
	}
	o.headers = []string{"Authorization: s3cret\x01"}
	if err := o.checkRequest(); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "Authorization") {
		t.Errorf("a value that cannot be sent: %v", err)
	}
	t.Setenv(deploy.EnvPrivate, "s3cret")
	if err := o.readPrivate(nil); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a Secret that cannot be read: %v", err)
	}
}
