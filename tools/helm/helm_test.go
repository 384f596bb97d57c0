// Package helm tests the chart, deploy/chart, with Helm itself.
package helm

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite what the chart renders to")

const (
	chart = "../../deploy/chart"
	cases = "../../deploy/testdata/chart/*.values.yaml"
)

// program builds Helm, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(path)), err
})

// helm runs Helm, and returns what it prints.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatalf("go tool -n helm: %v", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull, "HELM_CACHE_HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if err != nil {
		return stderr.String(), err
	}
	return stdout.String(), nil
}

// rendered returns the objects of a release of the chart in the namespace shop.
func rendered(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "web", chart, "-n", "shop"}, flags...)...)
}

// internal/cli holds that these are the objects that `lapse gen` prints.
func TestChartRendersAsCommitted(t *testing.T) {
	files, err := filepath.Glob(cases)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, values := range files {
		got, err := rendered(t, "-f", values)
		if err != nil {
			t.Errorf("%s: %v\n%s", values, err, got)
			continue
		}
		file := strings.TrimSuffix(values, ".values.yaml") + ".yaml"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is stale: run `go -C tools/helm test -update`, and look at the difference", file)
		}
	}
}

func TestChartHasNoFaultsThatHelmKnowsOf(t *testing.T) {
	files, err := filepath.Glob(cases)
	if err != nil {
		t.Fatal(err)
	}
	flags := [][]string{nil}
	for _, values := range files {
		flags = append(flags, []string{"-f", values})
	}
	for _, values := range flags {
		out, err := helm(t, append([]string{"lint", "--strict", chart, "-n", "shop"}, values...)...)
		if err != nil {
			t.Errorf("helm lint %v: %v\n%s", values, err, out)
		}
	}
}

func TestValuesThatMeanNothingAreRefused(t *testing.T) {
	for _, c := range []struct{ set, says string }{
		{"run.target=svc/web", "target"},
		{"runs.duration=5m", "runs"},
		{"image.name=lapse", "name"},
		{"run.from.everywhere=true", "everywhere"},
		{"run.from.all=false", "all"},
		{"run.from.all=true,run.from.nodes={node1}", "from"},
		{"run.targets=svc/web", "targets"},
		{"run.targets={}", "targets"},
		{"run.duration=10", "duration"},
		{"run.holdSeconds=10m", "holdSeconds"},
		{"run.name=Nightly", "name"},
		{"imagePullSecrets={login}", "imagePullSecrets"},
		{"run.networkPolicy=yes", "networkPolicy"},
		{"guard=true", "guard"},
		{"guard.enabled=yes", "enabled"},
		{"guard.claim=runs", "claim"},
		{"guard.flags=--rate=50", "flags"},
		{"guard.flags={--rat=50}", "flags"},
		{"guard.flags={--rate 50}", "flags"},
		{"guard.flags={--lease=mine}", "flags"},
		{"guard.placement.nodeName=node1", "nodeName"},
		{"guard.placement.tolerations=all", "tolerations"},
		{"guard.persistence.size=much", "size"},
		{"guard.persistence.enabled=true", "enabled"},
		{"guard.store.endpoint=http://minio:9000", "url"},
		{"guard.store.secret=lapse-store", "url"},
		{"guard.from.everywhere=true", "everywhere"},
		{"guard.from=all", "from"},
		{"guard.from.all=true,guard.from.nodes={node1}", "from"},
		{"guard.networkPolicy.from=[]", "from"},
		{"guard.networkPolicy=true", "networkPolicy"},
		{"guard.serviceMonitor=true", "serviceMonitor"},
		{"guard.prometheusRule.label=x", "label"},
		{"guard.dashboard.labels.grafana_dashboard=1", "grafana_dashboard"},
	} {
		out, err := rendered(t, "--set", c.set)
		if err == nil {
			t.Errorf("--set %s is accepted", c.set)
		} else if !strings.Contains(out, "schema") || !strings.Contains(out, c.says) {
			t.Errorf("--set %s: %s", c.set, out)
		}
	}
}

func TestEachRevisionIsARunOfItsOwn(t *testing.T) {
	out, err := rendered(t, "-s", "templates/run/job.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "\n  name: \"web-1\"\n") {
		t.Errorf("the first revision of the release web is not the run web-1:\n%s", out)
	}
}

// The Prometheus operator's own types have each field of what the chart has for it. Its rules and the dashboard are the
// files that others use.
func TestTheGuardIsWatchedAsTheFilesSay(t *testing.T) {
	values := strings.Replace(cases, "*", "guard-watched", 1)
	show := func(name string) string {
		out, err := rendered(t, "-f", values, "-s", "templates/guard/"+name+".yaml",
			"--set", "guard.prometheusRule.enabled=true,guard.dashboard.enabled=true")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	var monitor monitoringv1.ServiceMonitor
	var service corev1.Service
	strict(t, show("servicemonitor"), &monitor)
	strict(t, show("service"), &service)
	for label, value := range monitor.Spec.Selector.MatchLabels {
		if service.Labels[label] != value {
			t.Errorf("the ServiceMonitor selects %v, and the Service has %v", monitor.Spec.Selector, service.Labels)
		}
	}
	if at := monitor.Spec.Endpoints; len(at) != 1 || at[0].Port != service.Spec.Ports[0].Name || !at[0].HonorLabels {
		t.Errorf("the ServiceMonitor has the endpoints %+v", at)
	}
	if monitor.Labels["release"] != "kube-prometheus-stack" || monitor.Labels["app.kubernetes.io/name"] != "lapse-guard" {
		t.Errorf("the ServiceMonitor has the labels %v", monitor.Labels)
	}
	var rule monitoringv1.PrometheusRule
	var rules monitoringv1.PrometheusRuleSpec
	strict(t, show("prometheusrule"), &rule)
	strict(t, file(t, "rules.yaml"), &rules)
	for i := range rules.Groups {
		got := rule.Spec.Groups[i]
		if got.Name != rules.Groups[i].Name || len(got.Rules) != len(rules.Groups[i].Rules) || len(got.Rules) == 0 {
			t.Errorf("the group %s is %+v", rules.Groups[i].Name, got)
		}
		for j, want := range rules.Groups[i].Rules {
			if got.Rules[j].Expr != want.Expr || got.Rules[j].Annotations["summary"] != want.Annotations["summary"] {
				t.Errorf("the rule %s is %+v", want.Alert, got.Rules[j])
			}
		}
	}
	var dashboard corev1.ConfigMap
	strict(t, show("dashboard"), &dashboard)
	if dashboard.Data["lapse-guard.json"] != file(t, "dashboard.json") || dashboard.Labels["grafana_dashboard"] != "1" {
		t.Errorf("the ConfigMap has the labels %v, and another dashboard", dashboard.Labels)
	}
}

// file returns a file of the guard's.
func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "guard", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func strict(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}
