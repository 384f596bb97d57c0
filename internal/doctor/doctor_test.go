package doctor

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8s "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/deploy"
	"lapse/internal/image"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/access"
)

// lines are findings as "LEVEL CHECK", with what is found and the fix behind it.
func lines(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s: %s | %s\n", f.Level, f.Check, f.Found, f.Fix)
	}
	return b.String()
}

func TestAnAddressInUseIsFound(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for page, want := range map[string]string{taken.Addr().String(): "warn page: ", "127.0.0.1:0": "ok page: "} {
		if got := lines(Machine(page)); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s", page, got)
		}
	}
	if got := lines(Machine("127.0.0.1:0")); runtime.GOOS == "linux" && !strings.Contains(got, "ok system: linux/") {
		t.Errorf("no system in\n%s", got)
	}
}

// A fakeCluster has two nodes. The user may do all but what refused names. admit may change a Pod, and says why
// it is not let in.
func fakeCluster(refused []string, admit func(*corev1.Pod) error) *access.Cluster {
	client := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{NodeInfo: platform("linux", "amd64"), Images: []corev1.ContainerImage{{Names: []string{"ghcr.io/you/lapse:v1", "docker.io/library/lapse:dev"}}}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: corev1.NodeStatus{NodeInfo: platform("linux", "arm64")}},
	)
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action ktesting.Action) (bool, k8s.Object, error) {
		review := action.(ktesting.CreateAction).GetObject().(*authv1.SelfSubjectAccessReview).DeepCopy()
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = !slices.Contains(refused, a.Verb+" "+a.Resource)
		return true, review, nil
	})
	client.PrependReactor("create", "pods", func(action ktesting.Action) (bool, k8s.Object, error) {
		pod := action.(ktesting.CreateAction).GetObject().(*corev1.Pod)
		if admit == nil {
			return true, pod, nil
		}
		return true, pod, admit(pod)
	})
	return &access.Cluster{Client: kubetest.Client(client), Namespace: "shop"}
}

func platform(system, arch string) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{OperatingSystem: system, Architecture: arch}
}

func TestAClusterIsJudgedByWhatARunNeeds(t *testing.T) {
	insecure := func(*corev1.Pod) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New(`violates PodSecurity "restricted:latest"`))
	}
	limited := func(pod *corev1.Pod) error {
		pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("500m")
		return nil
	}
	constrained := func(pod *corev1.Pod) error {
		pod.Annotations = map[string]string{"openshift.io/scc": "anyuid"}
		return nil
	}
	for _, tt := range []struct {
		name    string
		refused []string
		admit   func(*corev1.Pod) error
		image   string
		want    []string
		fails   bool
	}{
		{"all is well", nil, nil, "ghcr.io/you/lapse:v1", []string{"ok API server: ", "ok rights: lapse run: enough", "ok rights: lapse routes: ", "ok admission: ", "ok image: ghcr.io/you/lapse:v1 is on 1 of 2 nodes"}, false},
		{"no right to create Jobs", []string{"create jobs"}, nil, "lapse:dev", []string{"fail rights: lapse run: 1 right is missing", "kubectl auth can-i create jobs.batch", "ok image: lapse:dev is on 1 of 2"}, true},
		{"no right to create DaemonSets", []string{"create daemonsets"}, nil, "lapse:dev", []string{"ok rights: lapse run: ", "warn rights: lapse run --from: "}, false},
		{"no right to list nodes", []string{"list nodes"}, nil, "lapse:dev", []string{
			"warn rights: lapse run: enough, but not to read nodes", "warn rights: lapse run --from: 1 right is missing", "warn rights: lapse routes: 1 right is missing",
			"  kubectl auth can-i list nodes   # to choose the nodes of --from | ask for these rights in the cluster",
		}, false},
		{"no right to create ClusterRoles", []string{"create clusterroles"}, nil, "lapse:dev", []string{"warn rights: lapse run: enough, but not to read nodes", "ok rights: lapse run --from: "}, false},
		{"no right to watch PodDisruptionBudgets", []string{"watch poddisruptionbudgets"}, nil, "lapse:dev", []string{"warn rights: lapse run: enough, but not to read poddisruptionbudgets"}, false},
		{"Pod Security", nil, insecure, "lapse:dev", []string{"fail admission: "}, true},
		{"a LimitRange with a low default limit", nil, limited, "lapse:dev", []string{"warn admission: the Pod is let in, but gets a CPU limit of 500m", "kubectl describe limitrange -n shop"}, false},
		{"OpenShift", nil, constrained, "lapse:dev", []string{"warn admission: the Job is let in; whether its Pod is cannot be checked: ", "oc adm policy"}, false},
		{"an image that nobody has pushed", nil, nil, "lapse:v2", []string{"warn image: lapse:v2 is on 0 of 2 nodes, and was not pushed to a registry | `lapse image push"}, false},
		{"no name of an image", nil, nil, "La pse", []string{"fail image: "}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := deploy.Config{Name: "lapse-check", Namespace: "shop", Image: tt.image}
			report := Report{Findings: Cluster(t.Context(), fakeCluster(tt.refused, tt.admit), config, image.Registry{})}
			got := lines(report.Findings)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			if failed := report.Failed() != nil; failed != tt.fails {
				t.Errorf("failed %v, want %v:\n%s", failed, tt.fails, got)
			}
		})
	}
}
