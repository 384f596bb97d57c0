package deploy

import (
	"os"
	"os/exec"
	"strconv"
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
	const rules, tests = "guard/rules.yaml", "testdata/rules.yaml"
	for _, file := range []string{rules, tests} {
		if _, err := os.ReadFile(file); err != nil { // or the go command would keep the result when it changes
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", tests}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}
