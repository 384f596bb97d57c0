package deploy

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/hint"
	"lapse/internal/kube"
)

// An UncheckedError says that the user may not create Pods, so that nothing is known of the agent's Pod.
type UncheckedError struct{ Err error }

func (e *UncheckedError) Error() string {
	return "the Job is let in; whether its Pod is cannot be checked: " + e.Err.Error()
}

func (e *UncheckedError) Unwrap() error { return e.Err }

// DryRun has the API server judge the run's Job and the agent's Pod as if they were created: Pod Security, quotas,
// LimitRanges and webhooks. It returns the refusal, with a hint, or an
// [UncheckedError]. Nothing is stored.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
func DryRun(ctx context.Context, client kube.Client, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	run := &Run{Cluster: Cluster{Client: client}, Namespace: config.Namespace, Name: config.Name}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	job := config.job()
	if _, err := client.Jobs(config.Namespace).Create(ctx, job, dry); err != nil {
		return run.createError(job, err)
	}
	template := config.podTemplate()
	pod := &corev1.Pod{TypeMeta: typeMeta("v1", "Pod"), ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Spec.ServiceAccountName = config.Name, "" // the run's own account does not exist yet
	_, err := client.Pods(config.Namespace).Create(ctx, pod, dry)
	if err == nil {
		return nil
	}
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource") {
		return hint.Add("the first run shows it: the Job's controller creates the Pod, not this user",
			&UncheckedError{err})
	}
	refusal := &corev1.Event{Reason: creationFailed, Message: err.Error()}
	refusal.Namespace = config.Namespace
	if judged := judgeEvent(refusal); judged != nil {
		return judged
	}
	return fmt.Errorf("create Pod %s in namespace %s: %w", pod.Name, config.Namespace, err)
}
