package cli

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"lapse/deploy"
	"lapse/internal/run/exit"
	"lapse/internal/run/resolve"
	"lapse/internal/run/spec"
)

// localFlags concern the workstation, or the Job as the API server knows it. All others are in the Spec.
var localFlags = []string{
	"out", "output", "verbose", "quiet", "color", "dashboard", "metrics", "no-capture", "here", "kubeconfig", "context",
	"image", "image-pull-secret", "cpu", "avoid-node",
	"from", // the nodes that it means are in the Spec
}

// askFor returns the checked options of a run in the cluster with these flags.
func askFor(t *testing.T, command []string, flags ...string) *spec.Options {
	t.Helper()
	o := parsed(t, flags...)
	o.ID = "lapse-x"
	targets := []string{"svc/web"}
	if o.Chooses() {
		targets = nil
	}
	if err := o.Check(targets, command); err != nil {
		t.Fatalf("%q: %v", flags, err)
	}
	if o.Chooses() { // as the cluster is asked later
		o.Chosen = []spec.ChosenService{{Namespace: "shop", Name: "web", Scheme: "http"}, {Namespace: "bank", Name: "web"}}
	}
	return o
}

// inPod returns the options of the agent in the Pod of that run's Job, as the kubelet starts it.
func inPod(t *testing.T, here *spec.Options) *spec.Options {
	t.Helper()
	objects := resolve.JobConfig(here, "shop").Objects()
	container := objects.Job.Spec.Template.Spec.Containers[0]
	for _, variable := range container.Env {
		value := expand(variable.Value, container.Env)
		if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil && from.SecretKeyRef.Name == objects.Job.Name {
			value = string(objects.Secret.Data[from.SecretKeyRef.Key])
		}
		before, was := os.LookupEnv(variable.Name)
		os.Setenv(variable.Name, value)
		defer func() {
			if os.Unsetenv(variable.Name); was {
				os.Setenv(variable.Name, before)
			}
		}()
	}
	agent := parsed(t, container.Args[1:]...)
	if err := agent.Check(nil, nil); err != nil {
		t.Fatal(err)
	}
	return agent
}

// expand replaces $(NAME) as the kubelet does.
func expand(value string, env []corev1.EnvVar) string {
	for _, known := range env {
		value = strings.ReplaceAll(value, "$("+known.Name+")", known.Value)
	}
	return value
}

// A flag is in the Spec, and changes it, or it is on the list of those that only concern the workstation. Whatever
// the Spec says the agent reads.
func TestEachFlagReachesTheAgentOrIsLocal(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, authority(t), 0o600); err != nil {
		t.Fatal(err)
	}
	descriptors := shopDescriptors(t)
	with := map[string][]string{ // what a flag needs beside it
		"duration": {}, "armed": {}, "idle-rate": {"--armed"}, "sign": {"--armed"}, "echo": {"--scheme=tcp"}, "echo-from": {"--scheme=tcp"}, "scheme": {}, "wait": {"--from=all"}, "min-node-coverage": {"--from=all"}, "heartbeat": {"--held=3"},
		"grpc-method":      {"--scheme=grpc", "--grpc-descriptors=" + descriptors},
		"grpc-descriptors": {"--scheme=grpc", "--grpc-method=shop.Cart/Get"},
		"grpc-message":     {"--scheme=grpc", "--grpc-descriptors=" + descriptors, "--grpc-method=shop.Cart/Get"},
	}
	accepted := filepath.Join(t.TempDir(), "accepted.yaml")
	if err := os.WriteFile(accepted, []byte("accepted: [{rule: LP05, reason: it drains}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"ca-file": ca, "color": "never", "preflight-baseline": accepted, "duration": "9s", "idle-rate": "7", "sign": "taint=example.com/retire:S:our-operator", "max-duration": "1h", "workstation-timeout": "7m", "join": "2s", "expect-body": `$(POD_NAME) "quoted"`,
		"grpc-method": "shop.Cart/Get", "grpc-descriptors": descriptors, "grpc-message": `{"name": "tea"}`}
	if given := parsed(t).Given; len(given) > 0 {
		t.Errorf("without flags, %v are given", given)
	}
	for _, f := range allFlags(t) {
		extra := with[f.Name]
		command, plainFlags := []string{"true"}, extra
		value, ok := values[f.Name]
		if !ok {
			value = sample(t, f)
		}
		if f.Name == "here" {
			continue
		}
		if f.Name == "duration" {
			command, plainFlags = nil, []string{"--duration=1s"}
		}
		if f.Name == "armed" || f.Name == "idle-rate" || f.Name == "sign" { // such a run wraps no command
			command = nil
		}
		if f.Name == "armed" {
			plainFlags = []string{"--duration=1s"}
		}
		if f.Name == "grpc-method" || f.Name == "grpc-descriptors" { // neither goes without the other
			plainFlags = []string{"--scheme=grpc"}
		}
		plain := askFor(t, command, plainFlags...)
		resolve.JobConfig(plain, "shop")
		here := askFor(t, command, append(slices.Clone(extra), "--"+f.Name+"="+value)...)
		agent := inPod(t, here)
		if diff := cmp.Diff(here.Spec, agent.Spec); diff != "" {
			t.Errorf("--%s %q: the agent does not read what the workstation says (-said +read):\n%s", f.Name, value, diff)
		}
		here.Namespace = f.Value.String() // JobConfig names the kubeconfig's
		if f.Name != "namespace" {
			here.Namespace = plain.Namespace
		}
		changed := !cmp.Equal(plain.Spec, here.Spec)
		if local := slices.Contains(localFlags, f.Name); local == changed {
			t.Errorf("--%s: local %v, changes the Spec %v", f.Name, local, changed)
		}
	}
}

func allFlags(t *testing.T) (flags []*pflag.Flag) {
	t.Helper()
	newRun().Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f) })
	return flags
}

// The flags that say how the Job is to look change it.
func TestLocalFlagsOfTheJobChangeIt(t *testing.T) {
	render := func(flags ...string) string {
		var yaml bytes.Buffer
		if err := deploy.WriteYAML(&yaml, resolve.JobConfig(askFor(t, []string{"true"}, flags...), "shop").Objects().Job); err != nil {
			t.Fatal(err)
		}
		return yaml.String()
	}
	for _, flag := range []string{"image", "image-pull-secret", "cpu", "avoid-node", "max-duration", "hold", "header-from"} {
		if render("--"+flag+"="+sample(t, newRun().Flags().Lookup(flag))) == render() {
			t.Errorf("--%s does not change the Job", flag)
		}
	}
	if render("--scheme=tcp", "--echo-from=web") == render("--scheme=tcp") {
		t.Error("--echo-from does not change the Job")
	}
}

// A run that waits for a sign has a day for it, unless --max-duration says how long.
func TestAnArmedRunHasADay(t *testing.T) {
	for want, flags := range map[time.Duration][]string{
		2 * time.Hour: {"--duration=1s"}, 24 * time.Hour: {"--armed"}, time.Hour: {"--armed", "--max-duration=1h"},
	} {
		if got := askFor(t, nil, flags...).MaxDuration; got != want {
			t.Errorf("%q: %v, want %v", flags, got, want)
		}
	}
}

// Arguments in a Job that somebody wrote by hand are flags; together with a Spec they would not count, and are
// refused.
func TestAnAgentTakesArgumentsOrASpec(t *testing.T) {
	for name, value := range map[string]string{deploy.EnvListen: "127.0.0.1:0", deploy.EnvHold: "1m", deploy.EnvDeadline: "2h", deploy.EnvRun: "lapse"} {
		t.Setenv(name, value)
	}
	agent := parsed(t, "--duration=10m", "--rate=50")
	if err := agent.Check([]string{"svc/web"}, nil); err != nil || agent.Rate != 50 || agent.DirectRate != 50 || agent.ID != "lapse" || agent.ExternalCommand {
		t.Errorf("%+v, %v", agent.Spec, err)
	}
	t.Setenv(deploy.EnvSpec, `{"targets":["svc/web"]}`)
	for _, args := range [][]string{{"svc/web"}, nil} {
		agent := parsed(t, "--rate=50")
		if err := agent.Check(args, nil); err == nil || !strings.Contains(err.Error(), "both") {
			t.Errorf("%q: %v", args, err)
		}
	}
	t.Setenv(deploy.EnvSpec, `{"targets":["svc/web"],"ofALaterVersion":true}`)
	if err := parsed(t).Check(nil, nil); err == nil || exit.CodeOf(err) != exit.Usage {
		t.Errorf("a flag that the agent does not know: %v", err)
	}
}

// What must not be read reaches the agent, and stands in nothing but a Secret: in no argument, no variable of the Pod
// and no recording.
func TestSecretsStandInNothingButASecret(t *testing.T) {
	for _, test := range []struct {
		flags []string
		has   func(*spec.Options) bool
	}{
		{[]string{"--header=Authorization: Bearer s3cret"}, func(o *spec.Options) bool { return o.Header.Get("Authorization") == "Bearer s3cret" }},
		{[]string{"-H=X-Team:s3cret"}, func(o *spec.Options) bool { return o.Header.Get("X-Team") == "s3cret" }},
		{[]string{`--hammer=-c 2 -H "Cookie: s3cret"`}, func(o *spec.Options) bool { return o.Hammer == `-c 2 -H "Cookie: s3cret"` }},
		{[]string{"--hammer=-c 2 -m POST -d s3cret"}, func(o *spec.Options) bool { return o.Hammer == "-c 2 -m POST -d s3cret" }},
		{[]string{"--scheme=tcp", "--echo=AUTH s3cret"}, func(o *spec.Options) bool { return o.Sent == "AUTH s3cret" }},
		{nil, func(o *spec.Options) bool { return o.Targets[0] == "svc/web/?token=s3cret" }},
	} {
		here := parsed(t, test.flags...)
		here.ID = "lapse-x"
		target := "svc/web"
		if test.flags == nil {
			target = "svc/web/?token=s3cret"
		}
		if err := here.Check([]string{target}, []string{"sh", "-c", "deploy --token s3cret"}); err != nil {
			t.Fatal(err)
		}
		objects := resolve.JobConfig(here, "shop").Objects()
		objects.Secret = nil
		var yaml bytes.Buffer
		if err := deploy.WriteYAML(&yaml, objects.All()...); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(yaml.String(), "s3cret") || strings.Contains(yaml.String(), "deploy --token") {
			t.Errorf("%q: a secret stands in the Job:\n%s", test.flags, &yaml)
		}
		agent := inPod(t, here)
		if !test.has(agent) {
			t.Errorf("%q: the agent has %+v", test.flags, agent.Spec)
		}
		if recorded, err := json.Marshal(agent.Spec); err != nil || bytes.Contains(recorded, []byte("s3cret")) {
			t.Errorf("%q: the recording has %s (%v)", test.flags, recorded, err)
		}
	}
}

// `lapse gen` prints no secret.
func TestGenRefusesSecrets(t *testing.T) {
	for _, args := range [][]string{
		{"svc/web", "--header=Authorization: Bearer s3cret"}, {"svc/web", "--hammer=-c 2 -H 'Cookie: s3cret'"}, {"svc/web", "--scheme=tcp", "--echo=s3cret"},
		{"svc/web/?token=s3cret"}, {"http://me:s3cret@web/"},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), append([]string{"lapse", "gen", "--duration=1s", "-n=shop"}, args...), &stdout, &stderr)
		if code != exit.Usage || strings.Contains(stdout.String()+stderr.String(), "s3cret") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, &stdout, &stderr)
		}
	}
}

// authority returns a certificate in PEM form.
func authority(t *testing.T) []byte {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
