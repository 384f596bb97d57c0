package deploy

import (
	"errors"
	"strings"
	"testing"

	authv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/kube/kubetest"
)

// authorizer is a cluster in which the user may do all but what refused names, as "verb resource/subresource".
func authorizer(rules []authv1.ResourceRule, refused ...string) (client *fake.Clientset, asked *int) {
	client, asked = fake.NewClientset(), new(int)
	client.PrependReactor("create", "selfsubjectrulesreviews", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, &authv1.SelfSubjectRulesReview{Status: authv1.SubjectRulesReviewStatus{ResourceRules: rules}}, nil
	})
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action ktesting.Action) (bool, runtime.Object, error) {
		*asked++
		review := action.(ktesting.CreateAction).GetObject().(*authv1.SelfSubjectAccessReview).DeepCopy()
		attributes := review.Spec.ResourceAttributes
		what := strings.TrimSuffix(attributes.Verb+" "+attributes.Resource+"/"+attributes.Subresource, "/")
		review.Status.Allowed = true
		for _, refusal := range refused {
			if refusal == what {
				review.Status.Allowed = false
			}
		}
		return true, review, nil
	})
	return client, asked
}

func TestNothingIsMissingWithAllRights(t *testing.T) {
	client, _ := authorizer(nil)
	if missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", true); err != nil || len(missing) > 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
}

func TestMissingRightsNameTheCommandThatAsksForThem(t *testing.T) {
	client, _ := authorizer(nil, "create jobs", "create pods/portforward", "watch endpointslices", "list nodes")
	missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", true)
	if err != nil {
		t.Fatal(err)
	}
	failure := &RightsError{missing}
	for _, want := range []string{
		"4 rights are missing",
		"kubectl auth can-i create jobs.batch -n shop ",
		"kubectl auth can-i create pods --subresource=portforward -n shop ",
		"kubectl auth can-i watch endpointslices.discovery.k8s.io -n shop ",
		"kubectl auth can-i list nodes ",
	} {
		if !strings.Contains(failure.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, failure)
		}
	}
	wantHint(t, failure, "admin")
}

func TestNodesAreNotAskedForUnlessWanted(t *testing.T) {
	client, _ := authorizer(nil, "list nodes", "create clusterroles")
	if missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", false); err != nil || len(missing) > 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
	missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", true)
	if err != nil || len(missing) != 2 {
		t.Errorf("missing %v, %v", missing, err)
	}
	wantHint(t, &RightsError{missing}, "without the lane of nodes")
}

func TestOneQuestionIsEnoughForAnAdministrator(t *testing.T) {
	all := []authv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	client, asked := authorizer(all)
	if _, err := CheckRights(t.Context(), kubetest.Client(client), "shop", false); err != nil || *asked != 0 {
		t.Errorf("asked %d times, %v", *asked, err)
	}
}

func TestRulesForNamedObjectsDoNotCount(t *testing.T) {
	named := []authv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ResourceNames: []string{"one"}}}
	client, _ := authorizer(named, "create jobs")
	if missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", false); err != nil || len(missing) != 1 {
		t.Errorf("missing %v, %v", missing, err)
	}
}

func TestUnreachableClusterIsAnErrorNotAMissingRight(t *testing.T) {
	client := fake.NewClientset()
	down := errors.New("connection refused")
	client.PrependReactor("create", "*", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, down })
	if missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", false); !errors.Is(err, down) || missing != nil {
		t.Errorf("missing %v, %v", missing, err)
	}
}
