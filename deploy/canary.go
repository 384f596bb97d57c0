package deploy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
)

// canaryPart is the value of PartLabel on the Pods of a run's own Service.
const canaryPart = "canary"

// The canary's port, how many Pods it has, and for how long each serves on when it has got SIGTERM: for longer than routes lead to it.
const (
	CanaryPort    = 8080
	canaryPods    = 2
	CanaryServes  = 20 * time.Second
	canarySeconds = 30
)

// CanaryName is the name of a run's own Service and its Deployment.
func CanaryName(run string) string { return run + "-canary" }

// TwinName is the name of the headless Service with the same Pods, whose name DNS servers are asked for.
func TwinName(run string) string { return run + "-twin" }

// CanarySelector selects the Pods of a run's own Service.
func CanarySelector(run string) string { return labels.Set(canaryLabels(run)).String() }

func canaryLabels(run string) map[string]string {
	return map[string]string{RunLabel: run, PartLabel: canaryPart}
}

// canary is the run's own Service, whose Pods answer and go on answering while they end: so that what is measured harms nobody.
// Its twin is headless.
func (c Config) canary() (deployment *appsv1.Deployment, service, twin *corev1.Service) {
	meta := c.meta()
	meta.Name = CanaryName(c.Name)
	all := c.podLabels()
	all[PartLabel] = canaryPart
	container := c.measuring(nil, "canary", "--serve-on", CanaryServes.String())
	container.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: CanaryPort}}
	container.Resources = corev1.ResourceRequirements{}
	container.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(CanaryPort)}},
		PeriodSeconds: 1,
	}
	deployment = &appsv1.Deployment{
		TypeMeta: typeMeta("apps/v1", "Deployment"), ObjectMeta: *meta.DeepCopy(),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(canaryPods)),
			Selector: &metav1.LabelSelector{MatchLabels: canaryLabels(c.Name)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: all, Annotations: map[string]string{"linkerd.io/inject": "disabled"}},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken:  new(false),
					TerminationGracePeriodSeconds: new(int64(canarySeconds)),
					EnableServiceLinks:            new(false),
					ImagePullSecrets:              c.pullSecrets(),
					SecurityContext:               restricted(),
					Containers:                    []corev1.Container{container},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector: &metav1.LabelSelector{MatchLabels: canaryLabels(c.Name)},
					}},
				},
			},
		},
	}
	service = &corev1.Service{
		TypeMeta: typeMeta("v1", "Service"), ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Selector: canaryLabels(c.Name),
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(CanaryPort)}},
		},
	}
	twin = service.DeepCopy()
	twin.Name, twin.Spec.ClusterIP = TwinName(c.Name), corev1.ClusterIPNone
	return deployment, service, twin
}

// waitCanary waits until the canary's Pods are ready endpoints.
func (r *Run) waitCanary(ctx context.Context) error {
	r.notify(waiting + "the Pods of Service " + CanaryName(r.Name) + " to be ready")
	last := ""
	err := wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		slices, err := r.Client.EndpointSlices(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + CanaryName(r.Name)})
		if err != nil {
			return false, fmt.Errorf("wait for the canary's endpoints: %w", err)
		}
		ready := 0
		for _, slice := range slices.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					ready++
				}
			}
		}
		if ready >= canaryPods {
			return true, nil
		}
		pods, err := r.Client.Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: CanarySelector(r.Name)})
		if err != nil {
			return false, fmt.Errorf("wait for the canary's Pods: %w", err)
		}
		last = strconv.Itoa(ready) + " of " + strconv.Itoa(canaryPods) + " are ready"
		for i := range pods.Items {
			if why := judgePod(&pods.Items[i]); why != nil {
				return false, why
			}
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("waited for the Pods of Service %s (%s): %w", CanaryName(r.Name), last, context.Cause(ctx))
	}
	return err
}

// endCanary deletes the Pods of the run's own Service, so that they do not serve on. Whoever may not do that leaves them to the Job.
func (r *Run) endCanary(ctx context.Context) error {
	pods, err := r.Client.Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: CanarySelector(r.Name)})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the canary's Pods: %w", err)
	}
	var errs []error
	for _, pod := range pods.Items {
		err := r.Client.Pods(r.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			errs = append(errs, fmt.Errorf("delete Pod %s: %w", pod.Name, err))
		}
	}
	return errors.Join(errs...)
}
