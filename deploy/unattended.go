package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/kube"
)

// HandOutKeys makes the keys of an unattended run of at most that length, and writes the probers' keys into the
// Secret that they wait for. From then on the Job of the agent's Pod owns the Secret. It returns the agent's own keys
// and writes them nowhere.
func HandOutKeys(ctx context.Context, client kube.Client, namespace, pod, secret string, lasts time.Duration) (agent.KeyPair, error) {
	keys, err := NewKeys(lasts)
	if err != nil {
		return agent.KeyPair{}, err
	}
	own, err := client.Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return agent.KeyPair{}, fmt.Errorf("find the Job of Pod %s: %w", pod, err)
	}
	var filled struct {
		Metadata struct {
			OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
		} `json:"metadata"`
		Data map[string][]byte `json:"data"`
	}
	if job := metav1.GetControllerOf(own); job != nil {
		filled.Metadata.OwnerReferences = []metav1.OwnerReference{{APIVersion: job.APIVersion, Kind: job.Kind, Name: job.Name, UID: job.UID}}
	}
	filled.Data = map[string][]byte{authorityKey: keys.Prober.CA, proberKey + ".crt": keys.Prober.Cert, proberKey + ".key": keys.Prober.Key}
	patch, err := json.Marshal(filled)
	if err != nil {
		return agent.KeyPair{}, fmt.Errorf("write the probers' keys: %w", err)
	}
	_, err = client.Secrets(namespace).Patch(ctx, secret, types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return agent.KeyPair{}, hint.Errorf("delete the Job and apply the whole file again: the Secret goes with the Job that filled it",
			"the probers wait for Secret %s in namespace %s, which is not there", secret, namespace)
	case err != nil:
		return agent.KeyPair{}, hint.Add("does the Role that came with the Job let it patch this Secret?", fmt.Errorf("write the probers' keys: %w", err))
	}
	return keys.Coordinator, nil
}

// DismissProbers deletes the DaemonSet of an unattended run.
func DismissProbers(ctx context.Context, client kube.Client, namespace, run string) error {
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := client.DaemonSets(namespace).Delete(ctx, ProbersName(run), background); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete DaemonSet %s: %w", ProbersName(run), err)
	}
	return nil
}

// deleteKeys deletes the Secret of an unattended run whose agent has not filled it: no Job owns that one. The run's
// Role names the Secret, so it is none of the user's own. Without the right to delete Secrets an empty one stays.
func deleteKeys(ctx context.Context, client kube.Client, namespace, run string, role *rbacv1.Role) error {
	for _, rule := range role.Rules {
		if len(rule.ResourceNames) != 1 || rule.ResourceNames[0] != KeysName(run) {
			continue
		}
		err := client.Secrets(namespace).Delete(ctx, KeysName(run), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("delete Secret %s: %w", KeysName(run), err)
		}
	}
	return nil
}
