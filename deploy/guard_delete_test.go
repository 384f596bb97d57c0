package deploy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	ktesting "k8s.io/client-go/testing"

	"lapse/internal/kube/kubetest"
)

// Nothing of a guard is left after `lapse delete guard`, whatever it was printed for, and nothing else goes with it.
func TestNothingIsLeftOfADeletedGuard(t *testing.T) {
	others := []runtime.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "flags", Namespace: "lapse"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: "lapse"}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "lapse"}},
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: GuardName, Namespace: "lapse"}}
	other := Guard{Namespace: "shop"}.Objects()
	for name, g := range map[string]Guard{
		"of all namespaces": {Namespace: "lapse", AllNamespaces: true, TokenSecret: "token"},
		"of one namespace":  {Namespace: "lapse"},
		"with a claim":      {Namespace: "lapse", AllNamespaces: true, Claim: "runs"},
		"with probers":      {Namespace: "lapse", Probers: []string{"node1"}},
	} {
		all := slices.Concat(g.Objects(), []runtime.Object{lease}, other, others)
		client := fake.NewSimpleClientset(all...)
		cluster := Cluster{Client: kubetest.Client(client)}
		if err := RemoveGuard(t.Context(), cluster, "lapse"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var left []string
		for _, o := range all {
			object := o.(metav1.Object)
			kinds, _, err := scheme.Scheme.ObjectKinds(o)
			if err != nil {
				t.Fatal(err)
			}
			resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
			if _, err := client.Tracker().Get(resource, object.GetNamespace(), object.GetName()); err == nil {
				left = append(left, object.GetNamespace()+"/"+object.GetName())
			}
		}
		if want := len(other) + len(others); len(left) != want || slices.Contains(left, "lapse/"+GuardName) || slices.Contains(left, "/"+GuardName+"-lapse") || slices.Contains(left, "lapse/"+GuardProbers) {
			t.Errorf("%s: left are %q", name, left)
		}
		if err := RemoveGuard(t.Context(), cluster, "lapse"); !errors.Is(err, ErrNoGuard) {
			t.Errorf("%s, again: %v", name, err)
		}
	}
}

// Two guards of all namespaces have rights of their own, and that of the other stays when one is deleted.
func TestTwoGuardsOfAllNamespacesShareNoRights(t *testing.T) {
	one, other := Guard{Namespace: "lapse", AllNamespaces: true}.Objects(), Guard{Namespace: "lapse-canary", AllNamespaces: true}.Objects()
	names := map[string]bool{}
	for _, o := range slices.Concat(one, other) {
		object := o.(metav1.Object)
		name := fmt.Sprintf("%T %s/%s", o, object.GetNamespace(), object.GetName())
		if names[name] {
			t.Fatalf("both have %s", name)
		}
		names[name] = true
	}
	client := fake.NewSimpleClientset(slices.Concat(one, other)...)
	if err := RemoveGuard(t.Context(), Cluster{Client: kubetest.Client(client)}, "lapse-canary"); err != nil {
		t.Fatal(err)
	}
	bindings, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(bindings.Items) != 1 || bindings.Items[0].Subjects[0].Namespace != "lapse" {
		t.Fatalf("left are %v, %v", bindings, err)
	}
	if _, err := client.RbacV1().ClusterRoles().Get(t.Context(), bindings.Items[0].RoleRef.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("its role: %v", err)
	}
}

// Of a guard that Helm has installed nothing is deleted: its objects have other labels.
func TestAGuardOfHelmIsLeftToIt(t *testing.T) {
	var all []runtime.Object
	for _, o := range (Guard{Namespace: "lapse", AllNamespaces: true}).Objects() {
		object := o.(metav1.Object)
		labels := object.GetLabels()
		labels[managedLabel] = "Helm"
		object.SetLabels(labels)
		object.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "shop-guard"})
		all = append(all, o)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lapse", Name: "x", Labels: guardLabels()}}
	client := fake.NewSimpleClientset(append(all, pod)...)
	err := RemoveGuard(t.Context(), Cluster{Client: kubetest.Client(client)}, "lapse")
	if err == nil || !strings.Contains(err.Error(), "Helm") {
		t.Errorf("%v", err)
	}
	wantHint(t, err, "helm -n lapse uninstall shop-guard")
	for _, a := range client.Actions() {
		if a.GetVerb() == "delete" {
			t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// Keys that stay are named, and the rest goes.
func TestWithoutTheRightToDeleteKeysTheyAreNamed(t *testing.T) {
	client := fake.NewSimpleClientset(Guard{Namespace: "lapse", Probers: []string{"node1"}}.Objects()...)
	client.PrependReactor("delete", "secrets", func(a ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), GuardProbers, errors.New("you may not"))
	})
	err := RemoveGuard(t.Context(), Cluster{Client: kubetest.Client(client)}, "lapse")
	if !strings.Contains(fmt.Sprint(err), "Secret lapse-guard-probers") {
		t.Errorf("%v", err)
	}
	wantHint(t, err, "kubectl -n lapse delete secret lapse-guard-probers")
	if sets, err := client.AppsV1().DaemonSets("lapse").List(t.Context(), metav1.ListOptions{}); err != nil || len(sets.Items) > 0 {
		t.Errorf("left: %d DaemonSets, %v", len(sets.Items), err)
	}
}

// It is not done before the probers' Pods are gone.
func TestDeletingAGuardWaitsForItsProbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := guardFleet().Objects()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lapse", Name: "x", Labels: guardFleet().set.Spec.Template.Labels}}
		client := fake.NewSimpleClientset(append(objects, pod)...)
		ended := time.Now().Add(17 * time.Second)
		go func() {
			time.Sleep(time.Until(ended))
			_ = client.CoreV1().Pods("lapse").Delete(t.Context(), "x", metav1.DeleteOptions{})
		}()
		if err := RemoveGuard(t.Context(), Cluster{Client: kubetest.Client(client)}, "lapse"); err != nil || time.Now().Before(ended) {
			t.Errorf("after %v: %v", time.Until(ended), err)
		}
	})
}

// Who may not list the guard's objects is told that some may be left. A guard of one namespace has none outside of it.
func TestWithoutRightsAGuardIsNotSaidToBeGone(t *testing.T) {
	for _, test := range []struct {
		all    bool
		unseen string // a kind in the namespace
		want   string
	}{
		{false, "poddisruptionbudgets", "no right to list [PodDisruptionBudget]: some of the guard in namespace lapse may be left"},
		{true, "poddisruptionbudgets", "no right to list [PodDisruptionBudget ClusterRoleBinding ClusterRole]: some"},
		{true, "", "no right to list [ClusterRoleBinding ClusterRole]: some of the guard in namespace lapse may be left"},
		{false, "", "<nil>"},
	} {
		client := fake.NewSimpleClientset(Guard{Namespace: "lapse", AllNamespaces: test.all}.Objects()...)
		client.PrependReactor("list", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
			resource := a.GetResource()
			denied := resource.Resource == test.unseen || strings.HasPrefix(resource.Resource, "cluster")
			return denied, nil, apierrors.NewForbidden(resource.GroupResource(), "", errors.New("you may not"))
		})
		err := RemoveGuard(t.Context(), Cluster{Client: kubetest.Client(client)}, "lapse")
		if !strings.HasPrefix(fmt.Sprint(err), test.want) {
			t.Errorf("of all namespaces %v: %v, want %s", test.all, err, test.want)
		}
		if err != nil {
			wantHint(t, err, "let somebody who may do it: `lapse delete guard -n lapse`")
		}
	}
}
