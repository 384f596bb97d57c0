package deploy

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/kube/kubetest"
)

// A run that measures in other namespaces reads these and no others. Their Roles go with the ClusterRole, are
// nobody's leftovers, and are deleted with the run.
func TestOtherNamespacesAreReadByARoleInEach(t *testing.T) {
	cluster, client := fakeCluster()
	config := exampleConfig()
	config.Namespaces = []string{"bank", "blog"}
	run, err := Create(t.Context(), cluster, config)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range config.Namespaces {
		role, err := client.RbacV1().Roles(namespace).Get(t.Context(), config.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		binding, err := client.RbacV1().RoleBindings(namespace).Get(t.Context(), config.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, owners := range [][]metav1.OwnerReference{role.OwnerReferences, binding.OwnerReferences} {
			if len(owners) != 1 || owners[0].Kind != "ClusterRole" || owners[0].UID != "role-1" {
				t.Errorf("%s: owned by %v", namespace, owners)
			}
		}
		if subject := binding.Subjects[0]; subject.Namespace != "shop" || subject.Name != config.Name {
			t.Errorf("%s: bound to %v", namespace, subject)
		}
		if left, _, err := Leftovers(t.Context(), cluster, namespace); err != nil || len(left) > 0 {
			t.Errorf("left in %s while the run goes on: %v, %v", namespace, left, err)
		}
	}
	role, err := client.RbacV1().ClusterRoles().Get(t.Context(), "lapse-x7k2p-nodes", metav1.GetOptions{})
	if err != nil || len(role.Rules) > 0 {
		t.Errorf("the ClusterRole allows %v, %v", role, err)
	}
	if err := run.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, cluster); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Only a run on all namespaces reads them all, and it cannot write there either.
func TestAllNamespacesAreReadByAClusterRole(t *testing.T) {
	config := exampleConfig()
	config.AllNamespaces, config.NodesAccess, config.Unread = true, true, []string{"deployments"}
	objects := config.Objects()
	var resources []string
	for _, rule := range objects.ClusterRole.Rules {
		resources = append(resources, rule.Resources...)
		if !slices.Equal(rule.Verbs, strings.Fields(readVerbs)) {
			t.Errorf("it may %v %v", rule.Verbs, rule.Resources)
		}
	}
	want := "nodes pods services events endpointslices replicasets statefulsets daemonsets poddisruptionbudgets"
	if got := strings.Join(resources, " "); got != want {
		t.Errorf("it reads %s, want %s", got, want)
	}
	if len(objects.Elsewhere) > 0 {
		t.Errorf("and Roles besides: %v", objects.Elsewhere)
	}
}

// What is missing in another namespace, or in all, is named with it. A ClusterRole is needed then, and not only for
// nodes.
func TestRightsAreAskedForWhereverTheAgentReads(t *testing.T) {
	for _, test := range []struct {
		need Needs
		want []string
	}{
		{Needs{Namespaces: []string{"bank"}}, []string{"list pods -n shop", "list pods -n bank", "create clusterroles.rbac.authorization.k8s.io"}},
		{Needs{AllNamespaces: true}, []string{"list pods -n shop", "list pods -A", "create clusterroles.rbac.authorization.k8s.io"}},
	} {
		client, _ := authorizer(nil, "list pods", "create clusterroles", "list deployments")
		missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", test.need)
		if err != nil {
			t.Fatal(err)
		}
		config := exampleConfig()
		unwatched, needed := config.Without(missing)
		if !slices.Equal(unwatched, []string{"deployments"}) {
			t.Errorf("%+v: does without %q", test.need, unwatched)
		}
		var got []string
		for _, m := range needed {
			got = append(got, strings.TrimPrefix(m.canI(), "kubectl auth can-i "))
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q is missing, want %q", test.need, got, test.want)
		}
	}
}
