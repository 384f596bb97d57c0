package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"lapse/deploy"
	"lapse/internal/run/spec"
)

// genFleet returns the objects that `lapse gen svc/web --duration 10m` prints with these flags, by kind.
func genFleet(t *testing.T, flags ...string) map[string]string {
	t.Helper()
	t.Setenv("KUBECONFIG", os.DevNull)
	var stdout, stderr bytes.Buffer
	if code := Main(t.Context(), append([]string{"lapse", "gen", "svc/web", "--duration=10m", "-n=shop", "--image=lapse:latest"}, flags...), &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	objects := map[string]string{}
	for document := range strings.SplitSeq(stdout.String(), "---\n") {
		var is metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &is); err != nil {
			t.Fatal(err)
		}
		objects[is.Kind] += document
	}
	return objects
}

func decode[T any](t *testing.T, text string) (object T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// kustomized returns a file of deploy/kustomize/fleet.
func kustomized(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kustomize/fleet/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What `kubectl apply -k deploy/kustomize/fleet` creates is what `lapse gen --from all` prints, but for names, and
// for how the Job gets its flags.
func TestKustomizedFleetIsWhatGenPrints(t *testing.T) {
	printed := genFleet(t, "--from=all")
	name := decode[batchv1.Job](t, printed["Job"]).Name
	for kind, file := range map[string]string{
		"ServiceAccount": "serviceaccount", "Role": "role", "RoleBinding": "rolebinding", "ClusterRole": "clusterrole", "ClusterRoleBinding": "clusterrolebinding",
		"Secret": "secret", "DaemonSet": "daemonset",
	} {
		got := strings.ReplaceAll(printed[kind], name, "lapse")
		into := map[string]func() runtime.Object{
			"ServiceAccount": func() runtime.Object { return new(corev1.ServiceAccount) }, "Role": func() runtime.Object { return new(rbacv1.Role) },
			"RoleBinding": func() runtime.Object { return new(rbacv1.RoleBinding) }, "ClusterRole": func() runtime.Object { return new(rbacv1.ClusterRole) },
			"ClusterRoleBinding": func() runtime.Object { return new(rbacv1.ClusterRoleBinding) }, "Secret": func() runtime.Object { return new(corev1.Secret) },
			"DaemonSet": func() runtime.Object { return new(appsv1.DaemonSet) },
		}[kind]
		gen, kustomization := into(), into()
		for text, object := range map[string]runtime.Object{got: gen, kustomized(t, file+".yaml"): kustomization} {
			if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			inNoNamespace(object)
		}
		if diff := cmp.Diff(kustomization, gen); diff != "" {
			t.Errorf("%s (-kustomized +printed): %s", kind, diff)
		}
	}
	for _, job := range []batchv1.Job{decode[batchv1.Job](t, printed["Job"]), decode[batchv1.Job](t, kustomized(t, "job.yaml"))} {
		if agent := agentOf(t, job); agent.From != "all" || agent.Keys != agent.Run+"-keys" || agent.Targets[0] != "svc/web/" || agent.Rate != defaultRate {
			t.Errorf("the agent has %+v", agent)
		}
	}
}

// inNoNamespace removes the namespace that a kustomization adds to what it creates.
func inNoNamespace(object runtime.Object) {
	meta := object.(metav1.Object)
	meta.SetNamespace("")
	labels := meta.GetLabels()
	delete(labels, deploy.NamespaceLabel)
	switch binding := object.(type) {
	case *rbacv1.RoleBinding:
		binding.Subjects[0].Namespace = ""
	case *rbacv1.ClusterRoleBinding:
		binding.Subjects[0].Namespace = ""
	}
}

// agentFlags has what the agent in a Job's Pod is asked for.
type agentFlags struct {
	Run, Keys, From string
	Targets         []string
	Rate            float64
}

// agentOf reads a Job as the agent in its Pod does.
func agentOf(t *testing.T, job batchv1.Job) agentFlags {
	t.Helper()
	agent := checkedAgent(t, job)
	return agentFlags{
		Run: agent.ID, Keys: agent.Env[deploy.EnvKeys], From: agent.From, Targets: agent.Targets, Rate: agent.Rate,
	}
}

// checkedAgent returns the options of the agent in a Job's Pod.
func checkedAgent(t *testing.T, job batchv1.Job) *spec.Options {
	t.Helper()
	container := job.Spec.Template.Spec.Containers[0]
	for _, variable := range container.Env {
		os.Setenv(variable.Name, variable.Value)
		defer os.Unsetenv(variable.Name)
	}
	agent := parsed(t, container.Args[1:]...)
	var targets []string
	for _, arg := range container.Args[1:] {
		if !strings.HasPrefix(arg, "-") {
			targets = append(targets, arg)
		}
	}
	if err := agent.Check(targets, nil); err != nil {
		t.Fatal(err)
	}
	return agent
}

// Which nodes are meant stands in the DaemonSet, and the agent finds out which these are.
func TestGenPutsProbersWhereFromSays(t *testing.T) {
	for from, want := range map[string]string{
		"node2,node/node1": "matchFields: metadata.name In node1 | matchFields: metadata.name In node2",
		"zone=a":           "matchExpressions: zone In a | matchExpressions: eks.amazonaws.com/compute-type NotIn fargate | matchExpressions: type NotIn virtual-kubelet",
	} {
		printed := genFleet(t, "--from="+from)
		var terms []string
		for _, term := range decode[appsv1.DaemonSet](t, printed["DaemonSet"]).Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for kind, requirements := range map[string][]corev1.NodeSelectorRequirement{"matchFields": term.MatchFields, "matchExpressions": term.MatchExpressions} {
				for _, r := range requirements {
					terms = append(terms, kind+": "+r.Key+" "+string(r.Operator)+" "+strings.Join(r.Values, ","))
				}
			}
		}
		if got := strings.Join(terms, " | "); got != want {
			t.Errorf("--from %s: probers on %q, want %q", from, got, want)
		}
		if agent := agentOf(t, decode[batchv1.Job](t, printed["Job"])); agent.From != from {
			t.Errorf("--from %s: the agent has %q", from, agent.From)
		}
		for kind, text := range printed {
			if strings.Contains(text, "PRIVATE KEY") {
				t.Errorf("a key stands in the %s", kind)
			}
		}
	}
}
