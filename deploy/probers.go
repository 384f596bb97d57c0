package deploy

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/deploy/agent"
)

// daemonSet returns a DaemonSet that runs a prober on each of the chosen nodes. A drain leaves its Pods in place, so
// that the drained node goes on measuring.
func (c Config) daemonSet() *appsv1.DaemonSet {
	meta := c.identity().meta()
	meta.Name = probersName(c.Name)
	return &appsv1.DaemonSet{
		TypeMeta: typeMeta("apps/v1", "DaemonSet"), ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{RunLabel: c.Name, PartLabel: ProberPart}},
			Template: c.proberPod(c.identity().proberMeta(), c.prober(c.keyEnv(proberKey)...)),
		},
	}
}

// proberPod returns the Pod of a prober.
//
// It has no rights and no token: it measures and serves its coordinator. It tolerates every taint, because nodes that
// are cordoned, drained or not ready are measured from, too.
func (c Config) proberPod(meta metav1.ObjectMeta, container corev1.Container) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(seconds(terminationGrace)),
			EnableServiceLinks:            new(false),
			NodeSelector:                  onLinux(nil),
			Affinity:                      c.proberAffinity(),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			ImagePullSecrets:              pullSecrets(c.ImagePullSecret),
			SecurityContext:               restricted(),
			Containers:                    []corev1.Container{container},
		},
	}
}

func (c Config) prober(keys ...corev1.EnvVar) corev1.Container {
	env := []corev1.EnvVar{
		{Name: EnvProbe, Value: "[::]:" + strconv.Itoa(agent.ProberPort)},
		{Name: EnvDir, Value: DefaultDir},
	}
	env = append(env, commonEnv()...)
	container := c.measuring(append(env, keys...), "probe")
	container.Ports = []corev1.ContainerPort{{Name: "lapse", ContainerPort: agent.ProberPort}}
	return container
}
