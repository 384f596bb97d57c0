package deploy

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/hint"
	"lapse/internal/kube"
)

// A WarningError says what may trouble a run although the cluster lets its Job in.
type WarningError struct{ Err error }

func (e *WarningError) Error() string { return e.Err.Error() }
func (e *WarningError) Unwrap() error { return e.Err }

func warn(advice, format string, args ...any) error {
	return hint.Add(advice, &WarningError{fmt.Errorf(format, args...)})
}

// unchecked begins a warning about a Pod of which a dry run says nothing.
const unchecked = "the Job is let in; whether its Pod is cannot be checked: "

// DryRun has the API server judge the run's Job and the agent's Pod as if they were created: Pod Security, quotas,
// LimitRanges and webhooks. It returns the refusal, with a hint, or a [WarningError]. Nothing is stored.
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
	admitted, err := client.Pods(config.Namespace).Create(ctx, pod, dry)
	if err == nil {
		return judgeAdmitted(admitted, config.Namespace)
	}
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource") {
		return warn("the first run shows it: the Job's controller creates the Pod, not this user", unchecked+"%w", err)
	}
	refusal := &corev1.Event{Reason: creationFailed, Message: err.Error()}
	refusal.Namespace = config.Namespace
	if judged := judgeEvent(refusal); judged != nil {
		return judged
	}
	return fmt.Errorf("create Pod %s in namespace %s: %w", pod.Name, config.Namespace, err)
}

// enoughCPU is a CPU limit that hardly stops the agent: Go then runs on two processors, and the pacer on one more.
var enoughCPU = resource.MustParse("2")

// judgeAdmitted returns a [WarningError] if the agent's Pod, as the API server would store it, has a low CPU limit, or
// if OpenShift let it in by a constraint: one of the user who asks, or of an account of the namespace.
// https://docs.openshift.com/container-platform/4.14/authentication/managing-security-context-constraints.html
func judgeAdmitted(pod *corev1.Pod, namespace string) error {
	for _, container := range pod.Spec.Containers {
		limit, ok := container.Resources.Limits[corev1.ResourceCPU]
		if container.Name == ContainerName && ok && limit.Cmp(enoughCPU) < 0 {
			advice := fmt.Sprintf("let what sets it, a LimitRange or a webhook, make it %s CPUs or more, or none: see "+
				"`kubectl describe limitrange -n %s`", enoughCPU.String(), namespace)
			return warn(advice, "the Pod is let in, but gets a CPU limit of %s: it may be stopped for up to 100 ms at "+
				"a time, in which nothing is observed", limit.String())
		}
	}
	if constraint := pod.Annotations["openshift.io/scc"]; constraint != "" {
		return warn(constraintHint(namespace), unchecked+"OpenShift let it in by the constraint %s, which may be this "+
			"user's, and the Job's controller creates it", constraint)
	}
	return nil
}
