package deploy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	for name, tt := range map[string]struct {
		refusal error
		want    string // in the error and its hint
	}{
		"let in":       {nil, ""},
		"Pod Security": {apierrors.NewForbidden(pods, "lapse-check", errors.New(`violates PodSecurity "restricted:latest": seccompProfile`)), podSecurityHint},
		"quota":        {apierrors.NewForbidden(pods, "lapse-check", errors.New("exceeded quota: small, requested: cpu=100m, used: cpu=950m, limited: cpu=1")), "the quota small leaves no room"},
		"no right":     {apierrors.NewForbidden(pods, "", errors.New(`User "dev" cannot create resource "pods" in API group ""`)), "whether its Pod is cannot be checked"},
		"otherwise":    {errors.New("the server is busy"), "create Pod lapse-check in namespace shop: the server is busy"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			var asked []string
			client.PrependReactor("create", "*", func(action ktesting.Action) (bool, runtime.Object, error) {
				create := action.(ktesting.CreateActionImpl)
				asked = append(asked, fmt.Sprint(create.GetResource().Resource, create.CreateOptions.DryRun))
				if create.GetResource().Resource == "pods" {
					return true, create.GetObject(), tt.refusal
				}
				return true, create.GetObject(), nil
			})
			err := DryRun(t.Context(), kubetest.Client(client), config)
			if got := fmt.Sprint(err, "\n", hint.Of(err)); (err == nil) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if _, unchecked := errors.AsType[*UncheckedError](err); unchecked != (name == "no right") {
				t.Errorf("unchecked: %v", unchecked)
			}
			if got := strings.Join(asked, " "); got != "jobs[All] pods[All]" {
				t.Errorf("it created %s, want a dry run of each", got)
			}
		})
	}
}
