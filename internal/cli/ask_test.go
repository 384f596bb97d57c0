package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"lapse/internal/guard/flagger"
	"lapse/internal/guard/gate"
	"lapse/internal/layer"
	"lapse/internal/run/access"
)

// asks is what the page of the gate has for other tools, each in a block of YAML.
type asks struct {
	argo struct {
		Spec struct {
			Metrics []struct {
				Provider struct{ Web struct{ URL string } }
			}
		}
	}
	kured struct{ Args []string }
	plan  struct {
		JobActiveDeadlineSecs int
		Prepare               struct{ Args []string }
	}
	github []struct{ Run string }
	gitlab map[string]struct {
		Script       []string
		AllowFailure struct {
			ExitCodes []int `json:"exit_codes"`
		} `json:"allow_failure"`
	}
	flagger struct {
		Analysis struct {
			Webhooks []struct {
				Type, URL string
				Metadata  map[string]string
			}
		}
	}
}

func readAsks(t *testing.T) (a asks) {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/ask-the-gate.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1)
	into := []any{&a.argo, new(any), &a.kured, &a.plan, &a.github, &a.gitlab, &a.flagger}
	if len(blocks) != len(into) {
		t.Fatalf("the page has %d blocks, want %d", len(blocks), len(into))
	}
	for i, block := range blocks {
		if err := yaml.Unmarshal(block[1], into[i]); err != nil {
			t.Fatalf("%v in\n%s", err, block[1])
		}
	}
	return a
}

// What the page gives to other tools asks the gate, and ends with the code of the answer.
func TestTheSnippetsOfThePageAskTheGate(t *testing.T) {
	layer.Real(t)
	a := readAsks(t)
	now := time.Now()
	stamp := regexp.MustCompile(`=\d{4}-\d\d-\d\dT[\d:]+Z`)
	values := func(args []string) (all []string) {
		for _, arg := range args {
			arg = strings.ReplaceAll(arg, "$(params.hash)", "new")
			all = append(all, stamp.ReplaceAllString(arg, "="+now.UTC().Format(time.RFC3339)))
		}
		return all
	}
	in := workdir(t)
	for state, code := range map[gate.State]int{gate.Pass: 0, gate.Fail: 3, gate.Inconclusive: 4} {
		g := gate.New()
		g.Change(func(b *gate.Book) {
			b.Guard("shop/web")
			b.Measured("shop/web", now.Add(-time.Hour), "")
			b.End("shop/web", gate.Run{ID: "r1", Began: now, Changed: now.Add(time.Minute), Verdict: state, Hashes: []string{"new"}})
		})
		server := httptest.NewServer(g)
		defer server.Close()
		t.Setenv(envGuard, server.URL)
		for name, args := range map[string][]string{"system-upgrade-controller": a.plan.Prepare.Args} {
			var said, trouble bytes.Buffer
			if got := Main(t.Context(), append([]string{"lapse"}, values(args)...), &said, &trouble); got != code {
				t.Errorf("%s, %s: exit code %d, want %d\n%s%s", name, state, got, code, &said, &trouble)
			}
		}
		for name, script := range map[string]string{"GitHub": a.github[0].Run, "GitLab": strings.Join(a.gitlab["roll-out"].Script, "\n")} {
			cmd := exec.Command("sh", "-ec", script)
			cmd.Dir, cmd.Env = in, append(os.Environ(), "PATH="+in+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), "rolled out") {
				t.Errorf("%s, %s: exit code %d, want %d (%v)\n%s", name, state, got, code, err, out)
			}
		}
		w := httptest.NewRecorder()
		at := strings.ReplaceAll(a.argo.Spec.Metrics[0].Provider.Web.URL, "{{args.hash}}", "new")
		asked, of := strings.CutPrefix(at, defaultGuard)
		if g.ServeHTTP(w, httptest.NewRequest("GET", asked, nil)); !of || w.Code != 200 || !strings.Contains(w.Body.String(), string(state)) {
			t.Errorf("%s, %s: %d %s", at, state, w.Code, w.Body)
		}
	}
	if doubt := a.gitlab["roll-out"].AllowFailure.ExitCodes; !slices.Equal(doubt, []int{4}) {
		t.Errorf("GitLab takes the codes %d for a warning", doubt)
	}
}

// kured waits for those of the guard's alerts that forbid a reboot. What system-upgrade-controller runs may wait for the
// gate as long as it says.
func TestThePageHoldsReboots(t *testing.T) {
	a := readAsks(t)
	flags := pflag.NewFlagSet("kured", pflag.ContinueOnError)
	only, filter := flags.Bool("alert-filter-match-only", false, ""), flags.String("alert-filter-regexp", "", "")
	flags.String("prometheus-url", "", "")
	if err := flags.Parse(a.kured.Args); err != nil || !*only {
		t.Fatalf("%q: %v", a.kured.Args, err)
	}
	rules, err := os.ReadFile("../../deploy/chart/guard/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		holds := alert[1] == "LapseGateClosed" || alert[1] == "LapseBlind"
		if got := regexp.MustCompile(*filter).MatchString(alert[1]); got != holds {
			t.Errorf("%s holds reboots: %t, want %t", alert[1], got, holds)
		}
	}
	gate := newGate()
	if err := gate.ParseFlags(a.plan.Prepare.Args); err != nil {
		t.Fatal(err)
	}
	wait, err := gate.Flags().GetDuration("wait")
	if err != nil || a.plan.JobActiveDeadlineSecs <= int(wait.Seconds()) {
		t.Errorf("the Job ends after %d s, and waits for %v (%v)", a.plan.JobActiveDeadlineSecs, wait, err)
	}
}

// Each webhook of the page is at the path of its type, and brings the token.
func TestTheWebhooksOfThePageAreFlaggers(t *testing.T) {
	types := map[string]bool{}
	for _, hook := range readAsks(t).flagger.Analysis.Webhooks {
		at, err := url.Parse(hook.URL)
		if err != nil {
			t.Fatal(err)
		}
		token, _ := at.User.Password()
		if types[hook.Type] = true; "http://"+at.Host != defaultGuard || at.Path != flagger.Path+hook.Type || token != "TOKEN" {
			t.Errorf("a webhook of type %s has the URL %s", hook.Type, at)
		}
		h := flagger.Hooks{
			Answer: func(gate.Query) (gate.Answer, string) { return gate.Answer{State: gate.Pass}, "" },
			Arm:    func(context.Context, string, string) error { return nil }, Now: time.Now,
		}
		body, err := json.Marshal(map[string]any{"name": "web", "namespace": "shop", "phase": "Progressing", "metadata": hook.Metadata})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("POST", at.Path, bytes.NewReader(body))); w.Code == 400 || w.Code == 404 {
			t.Errorf("%s: %d %s", hook.Type, w.Code, w.Body)
		}
	}
	if !types["event"] || !types["rollout"] || !types["rollback"] || !types["confirm-promotion"] {
		t.Errorf("the page has %v", types)
	}
}

// workdir returns a folder with lapse and rollout.sh.
func workdir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "lapse")) // by this name the test binary is lapse: see TestMain
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "rollout.sh"), []byte("#!/bin/sh\necho rolled out\n"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// In a Pod the environment's proxy gets neither the question nor the token, whatever $NO_PROXY has. It may be the way to
// a guard that is named.
func TestInAPodTheGuardIsAskedWithoutAProxy(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBECONFIG", "")
	t.Setenv(envGuard, "")
	at, client, err := findGuard(t.Context(), access.Kube{}, guardPlace{namespace: "ops"}, "shop/web")
	if err != nil || at != "http://lapse-guard.ops.svc:7117" {
		t.Fatal(at, err)
	}
	if transport, ok := client.Transport.(*http.Transport); !ok || transport.Proxy != nil {
		t.Errorf("%s is asked through a proxy", at)
	}
	_, client, err = findGuard(t.Context(), access.Kube{}, guardPlace{url: "http://guard.example.com"}, "shop/web")
	if err != nil || client != http.DefaultClient {
		t.Errorf("a guard elsewhere: %v", err)
	}
}
