//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

// askPage has what users of other tools put in theirs.
const askPage = "../../docs/how-to/ask-the-gate.md"

// An argoRollout is a Rollout of Argo Rollouts, with the AnalysisTemplate of the docs.
type argoRollout struct {
	t        *testing.T
	c        *drill.Cluster
	w        drill.Workload
	strategy string
}

// The controller of Argo Rollouts promotes a version whose canary lost nothing, aborts one whose canary fails each
// request, and pauses where the guard does not measure: by the AnalysisTemplate of the docs. It asks about a version that
// gets all requests at once, too.
func TestArgoRolloutsAsksTheGate(t *testing.T) {
	c := cluster(t)
	r := &argoRollout{t: t, c: c, w: drill.Workload{Namespace: "e2e-argo", Name: "web", Replicas: 2}}
	installArgoRollouts(t, c)
	t.Cleanup(func() {
		if err := c.Remove(context.Background(), r.w.Namespace); err != nil {
			t.Error(err)
		}
	})
	names := strings.NewReplacer("lapse-guard.lapse.", "lapse-guard."+r.w.Namespace+".", "shop", r.w.Namespace)
	r.strategy = "  " + strings.ReplaceAll(yamlOf(t, "strategy:"), "\n", "\n  ")
	template := names.Replace(yamlOf(t, "kind: AnalysisTemplate"))
	r.kubectl("create", "namespace", r.w.Namespace)
	r.apply(template)
	r.apply(strings.NewReplacer("name: lapse,", "name: blue,", "/web&", "/blue&").Replace(template))
	r.version("--body-size=2")
	blue := &argoRollout{t: t, c: c, w: r.w, strategy: blueGreen}
	blue.w.Name = "blue"
	blue.version("--body-size=2")
	r.apply(lapse(t, c, "gen", "guard", "-n", r.w.Namespace, "--", "--rate=25", "--settle=10s"))
	g := &guarded{t: t, c: c, w: r.w, namespace: r.w.Namespace}
	g.stands()
	r.reaches("Healthy")
	g.kubectl("-n", g.namespace, "wait", "--for=create", "lease/lapse-guard", "--timeout=1m")
	guards := g.pods()
	is := func(service, state string) {
		t.Helper()
		if err := g.inState(guards, r.w.Namespace+"/"+service, state); err != nil {
			t.Fatal(err)
		}
	}
	r.kubectl("annotate", "service/web", "lapse/guard=on", "lapse/expect-status=200")
	is("web", "idle")

	r.promotes("web", is)
	if r.status("stableRS") != r.status("currentPodHash") {
		t.Errorf("stable is %s, not %s", r.status("stableRS"), r.status("currentPodHash"))
	}
	good := r.status("stableRS")

	r.version("--body-size=3", "--warm-up=1h")
	r.reaches("Degraded")
	r.analysed("Failed", `"state":"fail"`)
	if r.status("abort") != "true" || r.status("stableRS") != good {
		t.Errorf("abort=%s, stable is %s and was %s", r.status("abort"), r.status("stableRS"), good)
	}

	r.kubectl("annotate", "service/web", "lapse/scheme=gopher")
	is("web", "not measured")
	r.version("--body-size=4")
	r.reaches("Paused")
	r.analysed("Inconclusive", `"state":"inconclusive"`)
	if reason := r.status("pauseConditions[0].reason"); reason != "InconclusiveAnalysisRun" {
		t.Errorf("it pauses for %q", reason)
	}

	blue.kubectl("annotate", "service/blue", "lapse/guard=on", "lapse/expect-status=200")
	is("blue", "idle")
	blue.promotes("blue", is)
}

// promotes rolls out versions that lose nothing, until the gate knows so of one. The machine may let the guard stand
// still. It then waits until the guard measures none of it any more.
func (r *argoRollout) promotes(service string, is func(service, state string)) {
	r.t.Helper()
	for body := 3; ; body++ {
		r.version(fmt.Sprint("--body-size=", body))
		phase := r.ends()
		is(service, "idle")
		if phase == "Healthy" {
			break
		}
		r.analysed("Inconclusive", `"reason":"0 of `)
		if body == 5 || r.t.Failed() {
			r.t.Fatal("no version is promoted")
		}
	}
	r.analysed("Successful", `"state":"pass"`)
}

// blueGreen makes the Service select all Pods of a new version at once, and then asks.
const blueGreen = `  strategy:
    blueGreen:
      activeService: blue
      postPromotionAnalysis:
        templates: [{templateName: blue}]
        args: [{name: hash, valueFrom: {podTemplateHashValue: Latest}}]`

// version rolls out a server with other arguments, and waits until the controller has seen that.
func (r *argoRollout) version(args ...string) {
	r.t.Helper()
	r.w.Args = append([]string{"--on-sigterm=graceful", "--drain-for=5s"}, args...)
	deployment, rollout := "apiVersion: apps/v1\nkind: Deployment", "apiVersion: argoproj.io/v1alpha1\nkind: Rollout"
	yaml := strings.Replace(r.w.Manifest(), deployment, rollout, 1)
	before := r.kubectl("get", "rollout/"+r.w.Name, "--ignore-not-found", "-o", "jsonpath={.status.currentPodHash}")
	r.apply(strings.Replace(yaml, "  template:\n", r.strategy+"\n  template:\n", 1))
	r.until("sees its version "+strings.Join(args, " "), func() bool { return r.status("currentPodHash") != before })
}

// reaches waits for a phase of the Rollout, which must be the next in which it stays.
func (r *argoRollout) reaches(phase string) {
	r.t.Helper()
	if is := r.ends(); is != phase {
		r.t.Fatalf("the Rollout %s is %s, want %s\n%s", r.w.Name, is, phase, r.says())
	}
}

// ends waits until the Rollout is in a phase that it does not leave by itself, and returns that.
func (r *argoRollout) ends() (phase string) {
	r.t.Helper()
	r.until("comes to an end", func() bool {
		phase = r.status("phase")
		return slices.Contains([]string{"Healthy", "Degraded", "Paused"}, phase)
	})
	return phase
}

// until waits for something of the Rollout.
func (r *argoRollout) until(what string, is func() bool) {
	r.t.Helper()
	until(r.t, "the Rollout "+r.w.Name+" "+what, is, r.says)
}

// says returns what the Rollout and its analyses say.
func (r *argoRollout) says() string {
	return r.kubectl("get", "rollouts,analysisruns,pods", "-o",
		`jsonpath={range .items[*]}{.kind} {.metadata.name}: {.status.phase} {.status.message} {.status.metricResults}{"\n"}{end}`)
}

// analysed holds the last AnalysisRun against a phase, and what the gate said to it.
func (r *argoRollout) analysed(phase, said string) {
	r.t.Helper()
	got := r.kubectl("get", "analysisruns", "--sort-by=.metadata.creationTimestamp",
		"-o", "jsonpath={.items[-1:].status.phase} {.items[-1:].status.metricResults[0].measurements[-1:].value}")
	r.t.Log("the last analysis: ", got)
	if is, value, _ := strings.Cut(got, " "); is != phase || !strings.Contains(value, said) {
		r.t.Errorf("the analysis is %s, want %s of %s", got, phase, said)
	}
}

func (r *argoRollout) status(field string) string {
	r.t.Helper()
	return r.kubectl("get", "rollout/"+r.w.Name, "-o", "jsonpath={.status."+field+"}")
}

func (r *argoRollout) kubectl(args ...string) string {
	r.t.Helper()
	out, err := r.c.Kubectl(r.t.Context(), append([]string{"-n", r.w.Namespace}, args...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (r *argoRollout) apply(yaml string) {
	r.t.Helper()
	r.kubectl("apply", "-f", file(r.t, yaml))
}

// file writes a file for kubectl.
func file(t *testing.T, yaml string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(name, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// yamlOf returns the YAML of the page that has a text.
func yamlOf(t *testing.T, has string) string {
	t.Helper()
	page, err := os.ReadFile(askPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(m[1], has) {
			return strings.TrimSpace(m[1])
		}
	}
	t.Fatalf("%s has no YAML with %q", askPage, has)
	return ""
}

// installArgoRollouts installs Argo Rollouts by its own manifests. Its controller is in an image on the nodes
// (`make bin/argo-rollouts.tar`, `sandbox load`).
func installArgoRollouts(t *testing.T, c *drill.Cluster) {
	t.Helper()
	where, err := exec.Command("go", "-C", "../../tools/argo", "list", "-m", "-f", "{{.Dir}}",
		"github.com/argoproj/argo-rollouts").Output()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(where)), "manifests", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	yaml := strings.NewReplacer("quay.io/argoproj/argo-rollouts:latest", "argo-rollouts:dev",
		"imagePullPolicy: Always", "imagePullPolicy: Never").Replace(string(manifest))
	yaml = "apiVersion: v1\nkind: Namespace\nmetadata: {name: argo-rollouts}\n---\n" + yaml
	objects := file(t, yaml)
	t.Cleanup(func() {
		out, err := c.Kubectl(context.Background(), "delete", "-n=argo-rollouts", "--ignore-not-found", "-f", objects)
		if err != nil {
			t.Error(out, err)
		}
	})
	for _, args := range [][]string{
		{"apply", "--server-side", "-n=argo-rollouts", "-f", objects},
		{"rollout", "status", "-n=argo-rollouts", "deployment/argo-rollouts", "--timeout=2m"},
	} {
		if out, err := c.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(out, err)
		}
	}
}
