package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"lapse/internal/layer"
)

// The annotations of the guard's Pod name the port at which it answers.
func TestPrometheusFindsTheGuard(t *testing.T) {
	for _, object := range (Guard{Namespace: "lapse"}).Objects() {
		deployment, ok := object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		pod := deployment.Spec.Template
		port := strconv.Itoa(int(pod.Spec.Containers[0].Ports[0].ContainerPort))
		if pod.Annotations["prometheus.io/scrape"] != "true" || pod.Annotations["prometheus.io/port"] != port {
			t.Errorf("%v, and the port is %s", pod.Annotations, port)
		}
		return
	}
	t.Error("no Deployment")
}

// The guard's alerts fire when they say, as Prometheus evaluates them. promtool comes with Debian's package prometheus,
// which sandbox/needs.sh installs.
func TestAlertsFireWhenTheySay(t *testing.T) {
	layer.Real(t)
	const rules, tests = "chart/guard/rules.yaml", "testdata/rules.yaml"
	for _, file := range []string{rules, tests} {
		if _, err := os.ReadFile(file); err != nil { // or the go command would keep the result when it changes
			t.Fatal(err)
		}
	}
	promtool(t, "check", "rules", rules)
	promtool(t, "test", "rules", tests)
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

// Prometheus understands what the dashboard asks, once Grafana has filled in its variables.
func TestTheDashboardAsksInPromQL(t *testing.T) {
	layer.Real(t)
	text, err := os.ReadFile("chart/guard/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	fill := strings.NewReplacer("$__range", "1h", "$__rate_interval", "5m", "$service", ".*")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			rules = append(rules, rule{fmt.Sprintf("panel:%d", len(rules)), fill.Replace(target.Expr)})
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	groups := map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}
	if text, err = json.Marshal(groups); err != nil || len(rules) < len(board.Panels) {
		t.Fatal(len(rules), err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}
