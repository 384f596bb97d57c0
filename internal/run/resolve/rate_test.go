package resolve

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/deploy"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/spec"
	"lapse/timeline"
	"lapse/watcher"
)

// From the flags through the Job's Spec to the probes: nodes share the rate of a run, and in `lapse routes` each node
// sends what was asked for.
func TestEachNodeSendsTheRateThatWasAskedFor(t *testing.T) {
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	client := kubetest.Client(fake.NewClientset(node("node1"), node("node2"), node("node3"), node("node4")))
	for name, test := range map[string]struct {
		asked              spec.Spec
		from               string
		probers            int
		each, all, control float64
	}{
		"run, four nodes":    {spec.Spec{Rate: 200}, "all", 4, 50, 200, 100},
		"run, one node":      {spec.Spec{Rate: 200}, "node2", 1, 200, 200, 100},
		"routes, four nodes": {spec.Spec{NodeRate: 500}, "all", 4, 500, 2000, 100},
		"routes, slowly":     {spec.Spec{NodeRate: 20}, "2", 2, 20, 40, 20},
	} {
		o := &spec.Options{Spec: test.asked, ID: "lapse-x", From: test.from}
		o.Kinds, o.Scheme, o.Timeout = []string{"new"}, "http", time.Second
		if err := chooseProbers(t.Context(), o, client); err != nil {
			t.Fatal(err)
		}
		var sent spec.Spec
		if err := json.Unmarshal(JobConfig(o, "shop").Spec, &sent); err != nil {
			t.Fatal(err)
		}
		agent := &spec.Options{Spec: sent, Env: spec.Env{deploy.EnvNamespace: "shop"}}
		web := spec.Service{
			Target: spec.Target{Service: "web", Path: "/"},
			Info:   watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "web", ClusterIP: "10.96.0.9"}, Port: 80},
		}
		agent.Parsed = []spec.Target{web.Target}
		var rates []float64
		for i := range agent.Probers {
			for _, p := range agent.ProbesFrom(web, i, len(agent.Probers)) {
				rates = append(rates, p.Rate)
			}
		}
		if want := slices.Repeat([]float64{test.each}, test.probers); !slices.Equal(rates, want) {
			t.Errorf("%s: the nodes send %v/s, want %v", name, rates, want)
		}
		if got := agent.Recorded().Rate; got != test.all {
			t.Errorf("%s: recorded are %v/s, want %v", name, got, test.all)
		}
		if got := agent.ControlRate(); got != test.control {
			t.Errorf("%s: control at %v/s, want %v", name, got, test.control)
		}
	}
}
