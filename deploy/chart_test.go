package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"lapse/deploy/agent"
)

//go:generate go test -run TestChartIsRenderedFromTheGoValues -update .

const (
	standInName    = "stand-in-name"
	standInAccount = "stand-in-account"
	standInDuring  = 7919 * time.Second
	standInHold    = 7907 * time.Second
)

// standIns are the values of [chartConfig], and what the chart has instead. An expression begins at $, because it may
// be in a loop.
var standIns = append(guardStandIns, []expression{
	{standIn: standInName, text: `include "lapse.run.name" $`},
	{standIn: standInAccount, text: `include "lapse.run.serviceAccount" $`},
	{standIn: "stand-in-ns", text: `$.Release.Namespace`},
	{standIn: "stand-in-image", text: `include "lapse.image" $`},
	{standIn: "stand-in-args", text: `include "lapse.run.args" $`, lines: true},
	{standIn: "stand-in-test-args", text: `include "lapse.run.testArgs" $`, lines: true},
	{standIn: "7883m", text: `$.Values.run.cpu`},
	{standIn: standInHold.String(), text: `duration (int64 $.Values.run.holdSeconds)`},
	{standIn: (standInDuring + standInHold).String(), text: "duration (" + chartDeadline + ")"},
	{standIn: strconv.Itoa(int((standInDuring + standInHold).Seconds())), text: chartDeadline},
	{standIn: "stand-in-pull", text: `.name`, each: `$.Values.imagePullSecrets`, in: "imagePullSecrets"},
	{standIn: "stand-in-avoid", text: `.`, each: `$.Values.run.avoidNodes`, in: "matchFields"},
	{
		standIn: "LAPSE_HEADER_0_", text: `printf "LAPSE_HEADER_%d_" $i`,
		each: `$i, $secret := $.Values.run.headersFrom`, in: "envFrom",
	},
	{standIn: "stand-in-header", text: `$secret`},
	{standIn: "stand-in-echo", text: `$.Values.run.echoFrom`},
	{standIn: "stand-in-node", text: `.`, each: `$.Values.run.from.nodes`, in: "nodeSelectorTerms"},
	{
		standIn: "stand-in-label", text: `$label`,
		each: `$label, $value := $.Values.run.from.labels`, in: "matchExpressions",
	},
	{standIn: "stand-in-value", text: `$value`},
}...)

const chartDeadline = `add $.Values.run.maxDurationSeconds $.Values.run.holdSeconds`

// chartConfig is the run that the chart describes, without what only some values ask for.
func chartConfig() Config {
	return Config{
		Name:      standInName,
		Namespace: "stand-in-ns",
		Image:     "stand-in-image",
		CPU:       "7883m",
		Args:      []string{"run", "stand-in-args"},
		Hold:      standInHold,
		Deadline:  standInDuring + standInHold,
	}
}

// fleet adds probers to a run.
func fleet(c *Config) { c.Unattended, c.ProberLabels = true, labels.Everything() }

// chartParts are what values add to the objects of a run. The probers' nodes are a part of a run that has probers.
var chartParts = []struct {
	when       string
	over, with func(*Config)
}{
	{when: `$.Values.imagePullSecrets`, with: func(c *Config) { c.ImagePullSecret = "stand-in-pull" }},
	{when: `$.Values.run.avoidNodes`, with: func(c *Config) { c.AvoidNodes = []string{"stand-in-avoid"} }},
	{when: `$.Values.run.headersFrom`, with: func(c *Config) { c.HeadersFrom = []string{"stand-in-header"} }},
	{when: `$.Values.run.from`, with: fleet},
	{when: `$.Values.run.from.nodes`, over: fleet, with: func(c *Config) {
		c.ProberLabels, c.Probers = nil, []string{"stand-in-node"}
	}},
	{when: `$.Values.run.from.labels`, over: fleet, with: func(c *Config) {
		c.ProberLabels = labels.SelectorFromSet(labels.Set{"stand-in-label": "stand-in-value"})
	}},
	{when: `$.Values.run.echoFrom`, with: func(c *Config) { c.EchoFrom = "stand-in-echo" }},
}

// charted returns the template of an object that a run of config has. A release is a guard, or else a run.
func charted(file, when string, config Config, object func(Config) runtime.Object) template {
	t := template{file: file, when: both(`not $.Values.guard.enabled`, when), object: object(config)}
	for _, p := range chartParts {
		without := config
		if p.over != nil {
			p.over(&without)
		}
		with := without
		p.with(&with)
		if o := object(with); !reflect.DeepEqual(o, object(without)) {
			t.parts = append(t.parts, part{p.when, o})
		}
	}
	return t
}

// both returns the condition that two conditions hold. An empty one always does.
func both(a, b string) string {
	if b == "" {
		return a
	}
	return "and (" + a + ") (" + b + ")"
}

const chartRights = `not $.Values.run.serviceAccount`

func chartTemplates() []template {
	run, probers := chartConfig(), chartConfig()
	fleet(&probers)
	nodes := run
	nodes.NodesAccess = true
	readsNodes := both(chartRights, `or $.Values.run.readNodes $.Values.run.from`)
	return []template{
		charted("run/serviceaccount", chartRights, run, func(c Config) runtime.Object { return c.Objects().ServiceAccount }),
		charted("run/role", chartRights, run, func(c Config) runtime.Object { return c.Objects().Role }),
		charted("run/rolebinding", chartRights, run, func(c Config) runtime.Object { return c.Objects().RoleBinding }),
		charted("run/clusterrole", readsNodes, nodes, func(c Config) runtime.Object { return c.Objects().ClusterRole }),
		charted("run/clusterrolebinding", readsNodes, nodes, func(c Config) runtime.Object {
			return c.Objects().ClusterRoleBinding
		}),
		charted("run/secret", `$.Values.run.from`, probers, func(c Config) runtime.Object { return c.Objects().Keys }),
		charted("run/job", "", run, func(c Config) runtime.Object {
			job := c.Objects().Job
			job.Spec.Template.Spec.ServiceAccountName = standInAccount
			return job
		}),
		charted("run/daemonset", `$.Values.run.from`, probers, func(c Config) runtime.Object { return c.Objects().Probers }),
		charted("run/networkpolicy", `$.Values.run.networkPolicy`, run, networkPolicy),
		charted("tests/answers", "", run, testPod),
	}
}

// networkPolicy lets the Pods of a run and of its test reach what they measure, and the coordinator its probers. Nobody
// else needs to reach them: a workstation does so through the kubelet, at the Pod's own loopback address.
func networkPolicy(c Config) runtime.Object {
	own := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: RunLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{c.Name, testName(c.Name)}},
	}}
	port := intstr.FromInt32(agent.ProberPort)
	return &networkingv1.NetworkPolicy{
		TypeMeta: typeMeta("networking.k8s.io/v1", "NetworkPolicy"), ObjectMeta: c.identity().meta(),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: own,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &own}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
			}},
			Egress: []networkingv1.NetworkPolicyEgressRule{{}},
		},
	}
}

// testPod is what `helm test` runs: a measurement of some seconds, in the way of the Job. It passes if the image can be
// pulled, the ServiceAccount may read, and the targets answer.
func testPod(c Config) runtime.Object {
	c.Name, c.Args, c.Hold = testName(c.Name), []string{"run", "stand-in-test-args"}, time.Second
	c.Unattended, c.ProberLabels, c.Probers = false, nil, nil
	pod := c.podTemplate()
	pod.Name, pod.Namespace = c.Name, c.Namespace
	pod.Annotations["helm.sh/hook"] = "test"
	pod.Annotations["helm.sh/hook-delete-policy"] = "before-hook-creation,hook-succeeded"
	pod.Spec.ServiceAccountName = standInAccount
	return &corev1.Pod{TypeMeta: typeMeta("v1", "Pod"), ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
}

func testName(run string) string { return run + "-test" }

func TestChartIsRenderedFromTheGoValues(t *testing.T) {
	w := templater{expressions: standIns}
	files := map[string]bool{}
	for _, template := range append(chartTemplates(), guardTemplates()...) {
		file := filepath.Join("chart", "templates", filepath.FromSlash(template.file)+".yaml")
		want := []byte("{{- /* Generated by `go generate ./deploy`. Do not edit. */}}\n" + w.write(template))
		files[file] = true
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run `go generate ./deploy`", file)
		}
		if bytes.Contains(got, []byte("stand-in")) {
			t.Errorf("%s has a stand-in left", file)
		}
	}
	there, err := filepath.Glob("chart/templates/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range there {
		if !files[file] {
			t.Errorf("%s is not generated from the Go values", file)
		}
	}
}

// chartVersion is the chart's version, and that of the image that it installs.
const chartVersion = "0.1.0"

func TestChartInstallsTheImageOfItsOwnVersion(t *testing.T) {
	text, err := os.ReadFile("chart/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	if chart.Version != chartVersion || chart.AppVersion != "v"+chartVersion {
		t.Errorf("version %q, appVersion %q: want %q", chart.Version, chart.AppVersion, chartVersion)
	}
}
