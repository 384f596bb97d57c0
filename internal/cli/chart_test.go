package cli

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"lapse/deploy"
	"lapse/internal/run/spec"
)

// A run of the chart has the objects that `lapse gen` prints with the same settings, but for names, and for how the Job
// gets its flags. The first line of a case's values has these settings; tools/helm renders the chart.
func TestChartGivesWhatGenPrints(t *testing.T) {
	files, err := filepath.Glob("../../deploy/testdata/chart/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".values.yaml"), func(t *testing.T) {
			values, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(values), "\n")
			if strings.HasPrefix(first, "# lapse gen guard ") {
				return // below
			}
			var set struct {
				Run struct{ Name, ServiceAccount string }
			}
			if err := yaml.Unmarshal(values, &set); err != nil {
				t.Fatal(err)
			}
			rendered, err := os.ReadFile(strings.TrimSuffix(file, ".values.yaml") + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			chart := objectsIn(t, string(rendered))
			printed := printedObjects(t, strings.Fields(first)[2:], set.Run.Name)
			if set.Run.ServiceAccount != "" {
				for _, kind := range []string{"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
					delete(printed, kind)
				}
				printed["Job"].(*batchv1.Job).Spec.Template.Spec.ServiceAccountName = set.Run.ServiceAccount
			}
			ofChart, ofGen := chart["Job"].(*batchv1.Job), printed["Job"].(*batchv1.Job)
			if diff := cmp.Diff(specOf(t, ofGen), specOf(t, ofChart)); diff != "" {
				t.Errorf("what the Job measures (-gen +chart): %s", diff)
			}
			agentOf(t, batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: chart["Pod"].(*corev1.Pod).Spec}}})
			withoutFlags(ofChart)
			withoutFlags(ofGen)
			delete(chart, "Pod")           // of `helm test`
			delete(chart, "NetworkPolicy") // gen prints none
			if diff := cmp.Diff(printed, chart); diff != "" {
				t.Errorf("(-gen +chart): %s", diff)
			}
		})
	}
}

// A guard of the chart has the objects that `lapse gen guard` prints with the settings in a case's first line, and
// some more.
func TestChartGivesTheGuardThatGenPrints(t *testing.T) {
	files, err := filepath.Glob("../../deploy/testdata/chart/guard*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	besides := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".values.yaml"), func(t *testing.T) {
			values, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var set struct {
				Guard struct{ Placement map[string]any }
			}
			if err := yaml.Unmarshal(values, &set); err != nil {
				t.Fatal(err)
			}
			rendered, err := os.ReadFile(strings.TrimSuffix(file, ".values.yaml") + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			placement, err := yaml.Marshal(set.Guard.Placement)
			if err == nil {
				err = os.WriteFile("placement.yaml", placement, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(values), "\n")
			var stdout, stderr strings.Builder
			if code := Main(t.Context(), strings.Fields(first)[1:], &stdout, &stderr); code != 0 {
				t.Fatalf("exit code %d: %s", code, &stderr)
			}
			chart, printed := documentsIn(t, string(rendered)), documentsIn(t, stdout.String())
			for name, document := range chart {
				if printed[name] == nil {
					besides[name] = true
					switch kind, _, _ := strings.Cut(name, "/"); kind {
					case "NetworkPolicy":
						decode[networkingv1.NetworkPolicy](t, asYAML(t, document))
					case "PersistentVolumeClaim":
						decode[corev1.PersistentVolumeClaim](t, asYAML(t, document))
					}
					delete(chart, name)
				}
			}
			if diff := cmp.Diff(printed, chart); diff != "" {
				t.Errorf("(-gen +chart): %s", diff)
			}
		})
	}
	// tools/helm has the types of what is the Prometheus operator's, and what has the rules and the dashboard.
	const more = "NetworkPolicy/lapse-guard NetworkPolicy/lapse-guard-probers PersistentVolumeClaim/lapse-guard ServiceMonitor/lapse-guard"
	if got := strings.Join(slices.Sorted(maps.Keys(besides)), " "); got != more {
		t.Errorf("the chart has %s besides", got)
	}
}

// What `kubectl apply -k` creates of a guard is what `lapse gen guard` prints. One of a namespace is in that of
// `kubectl -n`.
func TestKustomizedGuardIsWhatGenPrints(t *testing.T) {
	for folder, args := range map[string][]string{"guard": {"-A"}, "guard-from-all": {"-A", "--from=all"}, "guard-namespace": {"-n", "shop"}} {
		text, err := os.ReadFile("../../deploy/kustomize/" + folder + "/guard.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var stdout, stderr strings.Builder
		args = append([]string{"lapse", "gen", "guard", "--image=lapse:latest"}, args...)
		if code := Main(t.Context(), args, &stdout, &stderr); code != 0 {
			t.Fatalf("exit code %d: %s", code, &stderr)
		}
		printed := documentsIn(t, regexp.MustCompile(`(?m)^ *namespace: shop\n`).ReplaceAllString(stdout.String(), ""))
		if diff := cmp.Diff(printed, documentsIn(t, string(text))); diff != "" {
			t.Errorf("%s (-gen +kustomized): %s", folder, diff)
		}
	}
}

// documentsIn returns the objects of some YAML by KIND/NAME.
func documentsIn(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	documents := map[string]map[string]any{}
	for document := range strings.SplitSeq(text, "---\n") {
		var object map[string]any
		var is metav1.PartialObjectMetadata
		for _, into := range []any{&object, &is} {
			if err := yaml.Unmarshal([]byte(document), into); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
		}
		if object != nil {
			documents[is.Kind+"/"+is.Name] = object
		}
	}
	return documents
}

func asYAML(t *testing.T, object any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The chart takes the flags that `lapse gen guard` takes.
func TestChartKnowsTheGuardsFlags(t *testing.T) {
	text, err := os.ReadFile("../../deploy/chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if want := "^--(" + strings.Join(guardSettings, "|") + ")=" + `[^\\n]+$`; !strings.Contains(string(text), want) {
		t.Errorf("values.schema.json should have guard.flags with the pattern %s", want)
	}
}

// printedObjects returns what `lapse` prints with these arguments, with another name for the run.
func printedObjects(t *testing.T, args []string, name string) map[string]runtime.Object {
	t.Helper()
	t.Setenv("KUBECONFIG", os.DevNull)
	var stdout, stderr strings.Builder
	if code := Main(t.Context(), append([]string{"lapse"}, args...), &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	run := objectsIn(t, stdout.String())["Job"].(*batchv1.Job).Name
	return objectsIn(t, strings.ReplaceAll(stdout.String(), run, name))
}

// objectsIn returns the objects of some YAML by their kind, of which there is one each.
func objectsIn(t *testing.T, text string) map[string]runtime.Object {
	t.Helper()
	objects := map[string]runtime.Object{}
	for document := range strings.SplitSeq(text, "---\n") {
		var is metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &is); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		var object runtime.Object
		switch is.Kind {
		case "": // comments
			continue
		case "ServiceAccount":
			object = new(decode[corev1.ServiceAccount](t, document))
		case "Role":
			object = new(decode[rbacv1.Role](t, document))
		case "RoleBinding":
			object = new(decode[rbacv1.RoleBinding](t, document))
		case "ClusterRole":
			object = new(decode[rbacv1.ClusterRole](t, document))
		case "ClusterRoleBinding":
			object = new(decode[rbacv1.ClusterRoleBinding](t, document))
		case "Secret":
			object = new(decode[corev1.Secret](t, document))
		case "Job":
			object = new(decode[batchv1.Job](t, document))
		case "DaemonSet":
			object = new(decode[appsv1.DaemonSet](t, document))
		case "NetworkPolicy":
			object = new(decode[networkingv1.NetworkPolicy](t, document))
		case "Pod":
			object = new(decode[corev1.Pod](t, document))
		default:
			t.Fatalf("an object of kind %q", is.Kind)
		}
		if objects[is.Kind] != nil {
			t.Fatalf("two objects of kind %s", is.Kind)
		}
		objects[is.Kind] = object
	}
	return objects
}

// specOf returns what the agent in a Job's Pod is asked to do. As flags, it does not say where the Pod itself is, and
// when to give up a workstation.
func specOf(t *testing.T, job *batchv1.Job) spec.Spec {
	t.Helper()
	agent := checkedAgent(t, *job)
	agent.WorkstationTimeout, agent.Namespace, agent.ProberNodes = 0, "", agent.From
	return agent.Spec
}

// withoutFlags removes from a Job what its agent is asked to do.
func withoutFlags(job *batchv1.Job) {
	container := &job.Spec.Template.Spec.Containers[0]
	container.Args = nil
	for i, variable := range container.Env {
		if variable.Name == deploy.EnvSpec {
			container.Env = append(container.Env[:i], container.Env[i+1:]...)
			return
		}
	}
}
