//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	names := strings.NewReplacer("lapse-guard.lapse:", "lapse-guard."+r.w.Namespace+":", "shop", r.w.Namespace)
	r.strategy = "  " + strings.ReplaceAll(yamlOf(t, "strategy:"), "\n", "\n  ")
	r.version("--body-size=2")
	template := names.Replace(yamlOf(t, "kind: AnalysisTemplate"))
	r.apply(template)
	blue := &argoRollout{t: t, c: c, w: r.w, strategy: blueGreen}
	blue.w.Name = "blue"
	blue.version("--body-size=2")
	r.apply(strings.NewReplacer("name: lapse,", "name: blue,", "/web&", "/blue&").Replace(template))
	r.apply(lapse(t, c, "gen", "guard", "-n", r.w.Namespace, "--", "--rate=100", "--settle=10s"))
	r.kubectl("rollout", "status", "deployment/lapse-guard", "--timeout=2m")
	r.reaches("Healthy")
	log, err := c.Follow(t.Context(), t.Output(), "-n", r.w.Namespace, "logs", "-f", "deploy/lapse-guard")
	if err != nil {
		t.Fatal(err)
	}
	await := func(text string) {
		t.Helper()
		if err := log.Await(text); err != nil {
			t.Fatal(err)
		}
	}
	r.kubectl("annotate", "service/web", "lapse/guard=on", "lapse/expect-status=200")
	await("armed: 5/s")

	r.version("--body-size=3")
	r.reaches("Healthy")
	r.analysed("Successful", `"state":"pass"`)
	if r.status("stableRS") != r.status("currentPodHash") {
		t.Errorf("stable is %s, not %s", r.status("stableRS"), r.status("currentPodHash"))
	}
	good := r.status("stableRS")
	await("armed: 5/s") // after the canary
	await("armed: 5/s") // after the rest

	r.version("--body-size=3", "--warm-up=1h")
	r.reaches("Degraded")
	r.analysed("Failed", `"state":"fail"`)
	if r.status("abort") != "true" || r.status("stableRS") != good {
		t.Errorf("abort=%s, stable is %s and was %s", r.status("abort"), r.status("stableRS"), good)
	}

	r.kubectl("annotate", "service/web", "lapse/scheme=gopher")
	await("not measured")
	r.version("--body-size=4")
	r.reaches("Paused")
	r.analysed("Inconclusive", `"state":"inconclusive"`)
	if reason := r.status("pauseConditions[0].reason"); reason != "InconclusiveAnalysisRun" {
		t.Errorf("it pauses for %q", reason)
	}

	blue.kubectl("annotate", "service/blue", "lapse/guard=on", "lapse/expect-status=200")
	await("armed: 5/s")
	blue.version("--body-size=3")
	blue.reaches("Healthy")
	blue.analysed("Successful", `"state":"pass"`)
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
	r.apply(strings.Replace(yaml, "  template:\n", r.strategy+"\n  template:\n", 1))
	r.wait("observedGeneration", r.kubectl("get", "rollout/"+r.w.Name, "-o", "jsonpath={.metadata.generation}"))
}

// reaches waits for a phase of the Rollout.
func (r *argoRollout) reaches(phase string) {
	r.t.Helper()
	r.wait("phase", phase)
}

func (r *argoRollout) wait(field, value string) {
	r.t.Helper()
	r.kubectl("wait", "rollout/"+r.w.Name, "--for=jsonpath={.status."+field+"}="+value, "--timeout=2m")
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
		state, _ := r.c.Kubectl(r.t.Context(), "-n", r.w.Namespace, "get", "rollouts,analysisruns,pods", "-o", "yaml")
		r.t.Fatalf("%v\n%s", err, state)
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
