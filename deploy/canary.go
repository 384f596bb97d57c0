package deploy

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The canary's port, and how long each of its Pods serves after SIGTERM: longer than any route leads to it.
const (
	canaryPort    = 8080
	CanaryServes  = 20 * time.Second
	canarySeconds = 30
)

// canary returns the run's own Service, so that a measurement harms no other workload. Its Pods answer while they end.
// Its twin is headless.
func (c Config) canary() (deployment *appsv1.Deployment, service, twin *corev1.Service) {
	meta := c.identity().meta()
	meta.Name = CanaryName(c.Name)
	podMeta := c.identity().podMeta()
	podMeta.Labels[PartLabel] = canaryPart
	container := c.measuring(nil, "canary", "--serve-on", CanaryServes.String())
	container.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: canaryPort}}
	container.Resources = corev1.ResourceRequirements{ // a namespace with a quota refuses a Pod without them
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("16Mi"), // at rest it has 6 MiB of its own
		},
		// 100 nodes open 50000 connections per second, of which a stall keeps thousands.
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
	root := &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(canaryPort)}
	container.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: root}, PeriodSeconds: 1}
	deployment = &appsv1.Deployment{
		TypeMeta: typeMeta("apps/v1", "Deployment"), ObjectMeta: *meta.DeepCopy(),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(c.CanaryPods)),
			Selector: &metav1.LabelSelector{MatchLabels: canaryLabels(c.Name)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: podMeta,
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken:  new(false),
					TerminationGracePeriodSeconds: new(int64(canarySeconds)),
					EnableServiceLinks:            new(false),
					NodeSelector:                  onLinux(nil),
					ImagePullSecrets:              pullSecrets(c.ImagePullSecret),
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
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(canaryPort)}},
		},
	}
	twin = service.DeepCopy()
	twin.Name, twin.Spec.ClusterIP = TwinName(c.Name), corev1.ClusterIPNone
	return deployment, service, twin
}
