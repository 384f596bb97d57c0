//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// What begins one disruption after the other waits for the guard, as the docs say: kured asks a Prometheus for alerts,
// system-upgrade-controller runs `lapse gate` before each node. Neither controller can be built here. The test sends
// kured's query through promtool, which has the same client of Prometheus, and creates the Jobs that
// system-upgrade-controller makes of a Plan.
func TestAFailedDrainHoldsTheNext(t *testing.T) {
	g := guard(t, 3, "lapse", "--on-sigterm", "exit")
	t.Cleanup(func() {
		if err := g.c.Uncordon(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	p := startPrometheus(g)
	of := fmt.Sprintf("service=%q", g.w.Namespace+"/web")
	p.awaits(`count(lapse_guard_state{state="idle",` + of + `} == 1) == 2 and on() sum(lapse_guard_leader) == 1`)
	p.awaits(`histogram_count(lapse_request_duration_seconds{` + of + `}) > 0`) // only native histograms have a count
	p.awaits(`absent(ALERTS)`)
	if held := p.holdsKured(); len(held) > 0 {
		t.Errorf("kured waits for %q, and nothing has happened", held)
	}

	since := time.Now()
	hosts := g.kubectl("-n", g.namespace, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard",
		"-o", "jsonpath={.items[*].spec.nodeName}")
	nodes := threeNodes(t, g.c)
	slices.SortFunc(nodes, func(a, b string) int { // the guard's own are the last, as the page says
		return strings.Count(hosts, a) - strings.Count(hosts, b)
	})
	g.plan(nodes[0], since)
	g.kubectl("-n", g.namespace, "wait", "--for=condition=complete", "job/apply-"+nodes[0], "--timeout=2m")

	words := staleRoutes(t, g.c, g.w, podOn(t, g.c, g.w, nodes[0]), "kubectl drain "+nodes[0]+" --ignore-daemonsets")
	drain := exec.CommandContext(t.Context(), words[0], words[1:]...)
	drain.Env, drain.Stdout, drain.Stderr = g.c.Env(), t.Output(), t.Output()
	if err := drain.Start(); err != nil {
		t.Fatal(err)
	}
	p.awaits(`ALERTS{alertname="LapseGateClosed",alertstate="firing",` + of + `} and on() lapse_gate_state{state="pending",` + of + `} == 1`)
	if held := p.holdsKured(); !slices.Contains(held, "LapseGateClosed") {
		t.Errorf("kured waits for %q while the drain is measured", held)
	}
	if err := drain.Wait(); err != nil {
		t.Fatal(err)
	}
	p.awaits(`ALERTS{alertname="LapseServiceDroppedRequests",alertstate="firing",` + of + `}`)

	g.kubectl("uncordon", nodes[0]) // or its Pod had no place, and the disruption no end

	g.plan(nodes[1], since)
	g.kubectl("-n", g.namespace, "wait", "--for=condition=failed", "job/apply-"+nodes[1], "--timeout=2m")
	prepared := g.kubectl("-n", g.namespace, "get", "pods", "-l", "job-name=apply-"+nodes[1], "-o",
		"jsonpath={.items[*].status.initContainerStatuses[0].state.terminated.exitCode} "+
			"{.items[*].status.containerStatuses[0].state.waiting.reason}")
	if prepared != "3 PodInitializing" {
		t.Errorf("on the second node: %q, want that the gate failed, and nothing was upgraded", prepared)
	}
	p.awaits(`lapse_gate_state{state="fail",` + of + `} == 1`)
	if held := p.holdsKured(); !slices.Contains(held, "LapseGateClosed") {
		t.Errorf("kured waits for %q after a drain that lost requests", held)
	}

	g.kubectl("-n", g.namespace, "scale", "deployment/lapse-guard", "--replicas=0")
	p.awaits(`ALERTS{alertname="LapseBlind",alertstate="firing"}`)
	if held := p.holdsKured(); !slices.Equal(held, []string{"LapseBlind"}) {
		t.Errorf("kured waits for %q, and there is no guard", held)
	}
}

// plan creates the Job that system-upgrade-controller makes of a Plan with the page's lines for a node, but that a
// failure is final, which it repeats. What would upgrade the node only prints a version.
func (g *guarded) plan(node string, since time.Time) {
	g.t.Helper()
	deadline, prepare, _ := strings.Cut(yamlOf(g.t, "jobActiveDeadlineSecs:"), "\nprepare:\n")
	replaced := strings.NewReplacer(
		"registry.example.com/lapse:v1", "lapse:dev", "svc/web", "svc/"+g.w.Name, "=shop", "="+g.w.Namespace,
		"2026-11-26T10:00:00Z", since.UTC().Format(time.RFC3339)).Replace(prepare)
	job := strings.NewReplacer(
		"NODE", node, "DEADLINE", strings.TrimPrefix(deadline, "jobActiveDeadlineSecs: "),
		"PREPARE", strings.ReplaceAll(replaced, "\n", "\n      ")).Replace(planJob)
	if err := g.c.Apply(g.t.Context(), job); err != nil {
		g.t.Fatal(err)
	}
}

const planJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: apply-NODE, namespace: lapse}
spec:
  activeDeadlineSeconds: DEADLINE
  backoffLimit: 0
  template:
    spec:
      hostIPC: true
      hostPID: true
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      restartPolicy: Never
      nodeSelector: {kubernetes.io/hostname: NODE}
      tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists, effect: NoSchedule}]
      volumes: [{name: host-root, hostPath: {path: /, type: Directory}}]
      initContainers:
      - name: prepare
        volumeMounts: [{name: host-root, mountPath: /host}]
      PREPARE
      containers:
      - name: upgrade
        image: lapse:dev
        args: [version]
        securityContext: {privileged: true}
        volumeMounts: [{name: host-root, mountPath: /host}]
`

// A prometheus is Debian's, which cannot look for Pods by itself. It runs outside of the nodes, scrapes the guard's Pods
// where their annotations say, and evaluates the guard's alerts.
type prometheus struct {
	t      *testing.T
	c      *drill.Cluster
	filter *regexp.Regexp // of the alerts that kured waits for
}

const prometheusConfig = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs: [{job_name: pods, static_configs: [{targets: [TARGETS]}]}]
`

const prometheusAddress = "127.0.0.1:9090"

func startPrometheus(g *guarded) *prometheus {
	t := g.t
	t.Helper()
	dir := t.TempDir()
	targets := g.kubectl("-n", g.namespace, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard", "-o",
		`jsonpath={range .items[*]}"{.status.podIP}:{.metadata.annotations.prometheus\.io/port}",{end}`)
	rules, err := os.ReadFile("../../deploy/chart/guard/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Only that a guard is missed has to last. A minute of CI's time would show no more than a second does.
	soon := strings.ReplaceAll(string(rules), "for: 1m\n", "for: 1s\n")
	for name, text := range map[string]string{
		"rules.yaml":      soon,
		"prometheus.yaml": strings.Replace(prometheusConfig, "TARGETS", targets, 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server := g.c.On(t.Context(), "outside", "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+prometheusAddress,
		"--enable-feature=native-histograms", "--log.level=warn")
	server.Stdout, server.Stderr = t.Output(), t.Output()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // the context of the test has ended it
	for line := range strings.Lines(yamlOf(t, "--alert-filter-regexp=")) {
		if filter, ok := strings.CutPrefix(line, "- --alert-filter-regexp="); ok {
			return &prometheus{t, g.c, regexp.MustCompile(strings.TrimSpace(filter))}
		}
	}
	t.Fatal("the page has no filter of alerts")
	return nil
}

// alerts are those of an answer of Prometheus.
type alerts []struct{ Metric map[string]string }

// query sends an instant query as kured does. It returns nothing while there is no answer.
func (p *prometheus) query(expression string) (found alerts, err error) {
	out, err := p.c.On(p.t.Context(), "outside",
		"promtool", "query", "instant", "-o", "json", "http://"+prometheusAddress, expression).Output()
	if err != nil {
		return nil, err
	}
	return found, json.Unmarshal(out, &found)
}

// awaits waits until a query has a result.
func (p *prometheus) awaits(expression string) {
	p.t.Helper()
	began := time.Now()
	for range time.Tick(500 * time.Millisecond) {
		found, err := p.query(expression)
		if err == nil && len(found) > 0 {
			return
		}
		if time.Since(began) > 2*time.Minute {
			now, _ := p.query(`{__name__=~"ALERTS|up|lapse_gate_state|lapse_guard_state"} != 0`)
			p.t.Fatalf("%s has no result (%v): %v", expression, err, now)
		}
	}
}

// holdsKured returns the alerts for which kured begins no reboot, with the flags of the page: those whose name matches
// the filter, pending or firing.
func (p *prometheus) holdsKured() (names []string) {
	p.t.Helper()
	found, err := p.query("ALERTS")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, alert := range found {
		if name := alert.Metric["alertname"]; p.filter.MatchString(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
