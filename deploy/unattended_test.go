package deploy

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/deploy/agent"
)

// What is printed for somebody to apply has no private key in it. The agent may write to the one Secret and end the
// one DaemonSet, and else only read; the probers may nothing.
func TestAnAppliedRunHasNoKeyAndFewRights(t *testing.T) {
	objects := fleetConfig().Objects()
	var all bytes.Buffer
	if err := WriteYAML(&all, objects.All()...); err != nil {
		t.Fatal(err)
	}
	if text := all.String(); strings.Contains(text, "PRIVATE KEY") || len(objects.Keys.Data) > 0 || objects.Secret != nil {
		t.Errorf("a key is printed:\n%s", text)
	}
	var writes []rbacv1.PolicyRule
	for _, rule := range slices.Concat(objects.Role.Rules, objects.ClusterRole.Rules) {
		if !slices.Equal(rule.Verbs, strings.Fields(readVerbs)) {
			writes = append(writes, rule)
		}
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"lapse-keys"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, ResourceNames: []string{"lapse-probers"}, Verbs: []string{"get", "delete"}},
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("rights to write: %s", diff)
	}
	spec := objects.Probers.Spec.Template.Spec
	if *spec.AutomountServiceAccountToken || spec.ServiceAccountName != "" || len(spec.Volumes) > 0 {
		t.Errorf("a prober has a token or a volume: %+v", spec)
	}
	refs := map[string]string{}
	for _, variable := range spec.Containers[0].Env {
		if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil {
			refs[variable.Name] = from.SecretKeyRef.Name + "/" + from.SecretKeyRef.Key
			if from.SecretKeyRef.Optional != nil {
				t.Errorf("%s is optional: the prober would start without it", variable.Name)
			}
		}
	}
	if diff := cmp.Diff(map[string]string{EnvTLSCA: "lapse-keys/ca.crt", EnvTLSCert: "lapse-keys/prober.crt", EnvTLSKey: "lapse-keys/prober.key"}, refs); diff != "" {
		t.Errorf("what a prober waits for: %s", diff)
	}
}

// The probers' keys go into the Secret that they wait for, which the Job owns from then on. The coordinator's own are
// in nothing but its memory.
func TestKeysAreHandedOutToTheProbersAlone(t *testing.T) {
	config := fleetConfig()
	config.Namespace = "shop"
	job := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "lapse", UID: "job-1", Controller: new(true), BlockOwnerDeletion: new(true)}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lapse-abcde", Namespace: "shop", OwnerReferences: []metav1.OwnerReference{job}}}
	cluster, client := fakeCluster(pod, config.Objects().Keys)
	pair, err := HandOutKeys(t.Context(), cluster.Client, "shop", "lapse-abcde", "lapse-keys", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := client.CoreV1().Secrets("shop").Get(t.Context(), "lapse-keys", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "lapse", UID: "job-1"}}, secret.OwnerReferences); diff != "" {
		t.Errorf("owners: %s", diff)
	}
	prober := agent.KeyPair{CA: secret.Data["ca.crt"], Cert: secret.Data["prober.crt"], Key: secret.Data["prober.key"]}
	if _, err := prober.Server(); err != nil || len(secret.Data) != 3 {
		t.Errorf("%d entries, %v", len(secret.Data), err)
	}
	if _, err := pair.Client(); err != nil || !bytes.Equal(pair.CA, prober.CA) || bytes.Equal(pair.Key, prober.Key) {
		t.Errorf("the coordinator's keys: %v, the same authority %v, the prober's key %v", err, bytes.Equal(pair.CA, prober.CA), bytes.Equal(pair.Key, prober.Key))
	}
}

// A Secret that is gone with an earlier Job of this name is named.
func TestKeysWithoutTheirSecretAreRefused(t *testing.T) {
	cluster, _ := fakeCluster(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lapse-abcde", Namespace: "shop"}})
	_, err := HandOutKeys(t.Context(), cluster.Client, "shop", "lapse-abcde", "lapse-keys", time.Hour)
	if err == nil || !strings.Contains(err.Error(), "Secret lapse-keys in namespace shop, which does not exist") {
		t.Errorf("error %v", err)
	}
	wantHint(t, err, "apply the whole file again")
}

// The agent's end is that of its probers; that they are gone already is no error.
func TestProbersAreDismissedOnce(t *testing.T) {
	config := fleetConfig()
	config.Namespace = "shop"
	cluster, client := fakeCluster(config.Objects().Probers)
	for range 2 {
		if err := DismissProbers(t.Context(), cluster.Client, "shop", config.Name); err != nil {
			t.Fatal(err)
		}
	}
	sets, err := client.AppsV1().DaemonSets("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) > 0 {
		t.Errorf("%d DaemonSets are left, %v", len(sets.Items), err)
	}
}
