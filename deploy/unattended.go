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

const (
	noKeySecret     = "the probers wait for Secret %s in namespace %s, which does not exist"
	noKeySecretHint = "delete the Job and apply the whole file again: the Secret is deleted with the Job that filled it"
	noPatchHint     = "does the Role that came with the Job let it patch this Secret?"
)

// HandOutKeys makes the keys of an unattended run that takes at most lasts. It writes the probers' keys into the Secret
// that they wait for, and makes the Job of the agent's Pod the Secret's owner. It returns the agent's own keys, which
// are stored nowhere.
func HandOutKeys(
	ctx context.Context, client kube.Client, namespace, pod, secret string, lasts time.Duration,
) (agent.KeyPair, error) {
	none := agent.KeyPair{}
	keys, err := NewKeys(lasts)
	if err != nil {
		return none, err
	}
	own, err := client.Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return none, fmt.Errorf("find the Job of Pod %s: %w", pod, err)
	}
	var filled struct {
		Metadata struct {
			OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
		} `json:"metadata"`
		Data map[string][]byte `json:"data"`
	}
	if job := metav1.GetControllerOf(own); job != nil {
		owner := metav1.OwnerReference{APIVersion: job.APIVersion, Kind: job.Kind, Name: job.Name, UID: job.UID}
		filled.Metadata.OwnerReferences = []metav1.OwnerReference{owner}
	}
	filled.Data = map[string][]byte{
		authorityKey:       keys.Prober.CA,
		proberKey + ".crt": keys.Prober.Cert,
		proberKey + ".key": keys.Prober.Key,
	}
	patch, err := json.Marshal(filled)
	if err != nil {
		return none, fmt.Errorf("write the probers' keys: %w", err)
	}
	_, err = client.Secrets(namespace).Patch(ctx, secret, types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return none, hint.Errorf(noKeySecretHint, noKeySecret, secret, namespace)
	case err != nil:
		return none, hint.Errorf(noPatchHint, "write the probers' keys: %w", err)
	}
	return keys.Coordinator, nil
}

// DismissProbers deletes the DaemonSet of an unattended run.
func DismissProbers(ctx context.Context, client kube.Client, namespace, run string) error {
	err := client.DaemonSets(namespace).Delete(ctx, probersName(run), inBackground())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete DaemonSet %s: %w", probersName(run), err)
	}
	return nil
}

// deleteKeys deletes the Secret of an unattended run whose agent has not filled it, so that no Job owns it. The run's
// Role names the Secret, so it does not belong to the user. Without the right to delete Secrets it remains, empty.
func deleteKeys(ctx context.Context, client kube.Client, namespace, run string, role *rbacv1.Role) error {
	for _, rule := range role.Rules {
		if len(rule.ResourceNames) != 1 || rule.ResourceNames[0] != keysName(run) {
			continue
		}
		err := client.Secrets(namespace).Delete(ctx, keysName(run), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("delete Secret %s: %w", keysName(run), err)
		}
	}
	return nil
}
