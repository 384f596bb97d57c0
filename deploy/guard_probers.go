package deploy

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GuardProbers is the name of a guard's DaemonSet of probers, and of the Secret with their keys.
const GuardProbers = GuardName + "-probers"

// GuardProberSelector selects the Pods of a guard's probers. They have no label of the guard's own Pods, so that its
// Service does not send requests to them, and no label of a run.
const GuardProberSelector = nameLabel + "=" + GuardProbers

// Requests of a guard's prober. Until a sign it is to take 3 millicores and 20 MiB, and keeps the last two minutes of
// each of two guards, at most 8 MiB each.
const (
	guardProberCPU    = "10m"
	guardProberMemory = "40Mi"
)

func guardProberLabels() map[string]string {
	return map[string]string{nameLabel: GuardProbers, managedLabel: "lapse"}
}

// fleet returns what a guard needs besides to measure from nodes. The Secret is printed without data, which applying it
// again leaves as it is: the guard that leads fills and renews it ([GuardKeys]).
func (g Guard) fleet() []runtime.Object {
	meta := g.meta()
	meta.Name = GuardProbers
	return []runtime.Object{
		&corev1.Secret{TypeMeta: typeMeta("v1", "Secret"), ObjectMeta: meta, Type: corev1.SecretTypeOpaque},
		&rbacv1.Role{TypeMeta: typeMeta(rbacV1, "Role"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "patch"},
			ResourceNames: []string{GuardProbers},
		}}},
		&rbacv1.RoleBinding{
			TypeMeta: typeMeta(rbacV1, "RoleBinding"), ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: GuardProbers},
			Subjects: g.subjects(),
		},
		g.daemonSet(meta),
	}
}

// daemonSet returns the DaemonSet of the probers. Of the Secret their Pods get their own keys and the authority's
// certificate, never its key. They start when the Secret is filled.
func (g Guard) daemonSet(meta metav1.ObjectMeta) *appsv1.DaemonSet {
	config := Config{
		Image: g.Image, ImagePullSecret: g.ImagePullSecret, CPU: guardProberCPU,
		Probers: g.Probers, ProberLabels: g.ProberLabels,
		NoStorageRequest: true, // nothing is written to a file
	}
	container := config.prober(corev1.EnvVar{Name: EnvKeyDir, Value: guardKeys})
	container.Resources.Requests[corev1.ResourceMemory] = resource.MustParse(guardProberMemory)
	container.VolumeMounts = []corev1.VolumeMount{{Name: "keys", MountPath: guardKeys, ReadOnly: true}}
	template := config.proberPod(unmeshed(guardProberLabels()), container)
	keys := &corev1.SecretVolumeSource{SecretName: GuardProbers}
	for _, key := range []string{authorityKey, proberKey + ".crt", proberKey + ".key"} {
		keys.Items = append(keys.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	template.Spec.Volumes = []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: keys}}}
	return &appsv1.DaemonSet{
		TypeMeta: typeMeta("apps/v1", "DaemonSet"), ObjectMeta: meta,
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: guardProberLabels()},
			Template: template,
			// Each node is without its prober for some seconds in any case. All at once would leave none that measures;
			// one by one, as by default, would take 100 nodes most of an hour, with probers of two versions.
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("10%"))},
			},
		},
	}
}
