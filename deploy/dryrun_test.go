package deploy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/internal/hint"
	"lapse/internal/kube/kubetest"
)

// A dry run asks for the Job and for its Pod, stores neither, and says what a first run would.
func TestADryRunSaysWhatTheClusterRefuses(t *testing.T) {
	config := Config{Name: "lapse-check", Namespace: "shop", Image: "ghcr.io/you/lapse:v1"}
	pods := corev1.Resource("pods")
	limit := func(cpu string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
	}
	constraint := func(pod *corev1.Pod) { pod.Annotations = map[string]string{"openshift.io/scc": "anyuid"} }
	unchanged := func(*corev1.Pod) {}
	for name, tt := range map[string]struct {
		change  func(*corev1.Pod) // what admission makes of the Pod
		refusal error
		want    string // in the error and its hint
		warns   bool
	}{
		"let in":       {unchanged, nil, "", false},
		"a low limit":  {limit("500m"), nil, "gets a CPU limit of 500m: it may be stopped for up to 100 ms at a time", true},
		"a high limit": {limit("2"), nil, "", false},
		"OpenShift":    {constraint, nil, "by the constraint anyuid, which may be this user's, and the Job's controller creates it\n" + constraintHint("shop"), true},
		"Pod Security": {unchanged, apierrors.NewForbidden(pods, "lapse-check", errors.New(`violates PodSecurity "restricted:latest": seccompProfile`)), podSecurityHint, false},
		"quota":        {unchanged, apierrors.NewForbidden(pods, "lapse-check", errors.New("exceeded quota: small, requested: cpu=100m, used: cpu=950m, limited: cpu=1")), "the quota small leaves no room", false},
		"no right":     {unchanged, apierrors.NewForbidden(pods, "", errors.New(`User "dev" cannot create resource "pods" in API group ""`)), "whether its Pod is cannot be checked", true},
		"otherwise":    {unchanged, errors.New("the server is busy"), "create Pod lapse-check in namespace shop: the server is busy", false},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			var asked []string
			client.PrependReactor("create", "*", func(action ktesting.Action) (bool, runtime.Object, error) {
				create := action.(ktesting.CreateActionImpl)
				asked = append(asked, fmt.Sprint(create.GetResource().Resource, create.CreateOptions.DryRun))
				if pod, ok := create.GetObject().(*corev1.Pod); ok {
					tt.change(pod)
					return true, pod, tt.refusal
				}
				return true, create.GetObject(), nil
			})
			err := DryRun(t.Context(), kubetest.Client(client), config)
			if got := fmt.Sprint(err, "\n", hint.Of(err)); (err == nil) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if _, warns := errors.AsType[*WarningError](err); warns != tt.warns {
				t.Errorf("a warning: %v", warns)
			}
			if got := strings.Join(asked, " "); got != "jobs[All] pods[All]" {
				t.Errorf("it created %s, want a dry run of each", got)
			}
		})
	}
}
