package deploy

import (
	"path"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	GuardName      = "lapse-guard" // of all objects of a guard, or how their names begin
	guardHistory   = "lapse-guard-history"
	GuardNamespace = "lapse" // where it runs if nothing else is said

	guardDir      = "/var/lib/lapse" // where a claim is mounted
	guardConfig   = "/etc/lapse"
	guardFlagsKey = "flags"
	guardSecret   = "/etc/lapse-token"
	guardTokenKey = "token"
	guardKeys     = "/etc/lapse-keys" // of a prober

	allNamespaces = "--all-namespaces"
)

// A Guard says how `lapse guard` looks in the cluster.
type Guard struct {
	Namespace       string // where it runs, and whose Services it guards unless AllNamespaces
	AllNamespaces   bool
	Image           string
	ImagePullSecret string    // optional
	CPU             string    // the request of each of its Pods, a Kubernetes quantity; default [DefaultCPU]
	Placement       Placement // of these Pods
	Claim           string    // the PersistentVolumeClaim for its runs; empty: they go with the Pod
	Store           string    // s3://BUCKET/PREFIX, which keeps all runs, too; empty: none
	StoreEndpoint   string    // the URL of an S3 server other than Amazon's
	StoreSecret     string    // the Secret with the variables of its key; empty: the ServiceAccount has an IAM role
	TokenSecret     string    // the Secret with the token of who may arm a Service or call a hook; empty: nobody may
	Flags           []string  // of `lapse guard`, in the ConfigMap

	Annotations map[string]string // of the ServiceAccount, such as the one that names its IAM role
	// The nodes to measure from, too, by a prober each, as in [Config].
	Probers      []string
	ProberLabels labels.Selector
}

// A Placement has the fields of a Pod's spec that say where it may run, and before whom.
type Placement struct {
	NodeSelector      map[string]string   `json:"nodeSelector,omitempty"`
	Affinity          *corev1.Affinity    `json:"affinity,omitempty"`
	Tolerations       []corev1.Toleration `json:"tolerations,omitempty"`
	PriorityClassName string              `json:"priorityClassName,omitempty"`
}

// Objects returns the guard's objects in the order in which to apply them.
func (g Guard) Objects() []runtime.Object {
	rules := guardRules()
	all := []runtime.Object{
		&corev1.ServiceAccount{TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: g.account()},
	}
	if g.AllNamespaces {
		all = append(all,
			&rbacv1.ClusterRole{
				TypeMeta: typeMeta(rbacV1, "ClusterRole"), ObjectMeta: g.clusterMeta(),
				Rules: append(rules, everywhereRules()...),
			},
			&rbacv1.ClusterRoleBinding{
				TypeMeta: typeMeta(rbacV1, "ClusterRoleBinding"), ObjectMeta: g.clusterMeta(),
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: g.clusterMeta().Name},
				Subjects: g.subjects(),
			})
	} else {
		all = append(all,
			&rbacv1.Role{TypeMeta: typeMeta(rbacV1, "Role"), ObjectMeta: g.meta(), Rules: rules},
			&rbacv1.RoleBinding{
				TypeMeta: typeMeta(rbacV1, "RoleBinding"), ObjectMeta: g.meta(),
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: GuardName},
				Subjects: g.subjects(),
			})
	}
	if g.Claim == "" {
		all = append(all, g.own()...)
	}
	if g.hasProbers() {
		all = append(all, g.fleet()...)
	}
	return append(all, g.configMap(), g.service(), g.deployment())
}

// own returns what two guards without a claim need besides, in their namespace: the right to elect the one that speaks,
// a budget by which a drain leaves one of them, and a ConfigMap for what outlives them. That is printed without data,
// which applying it again leaves as it is, so that the guard needs no right to create it, and goes with the rest.
func (g Guard) own() []runtime.Object {
	meta := g.meta()
	meta.Name += "-lease"
	history := g.meta()
	history.Name = guardHistory
	return []runtime.Object{
		&corev1.ConfigMap{TypeMeta: typeMeta("v1", "ConfigMap"), ObjectMeta: history},
		&rbacv1.Role{TypeMeta: typeMeta(rbacV1, "Role"), ObjectMeta: meta, Rules: ownRules()},
		&rbacv1.RoleBinding{
			TypeMeta: typeMeta(rbacV1, "RoleBinding"), ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: g.subjects(),
		},
		&policyv1.PodDisruptionBudget{
			TypeMeta: typeMeta("policy/v1", "PodDisruptionBudget"), ObjectMeta: g.meta(),
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable:             new(intstr.FromInt32(1)),
				UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow), // else no node is drained while both crash
				Selector:                   &metav1.LabelSelector{MatchLabels: guardLabels()},
			},
		},
	}
}

// ownRules returns what two guards may do in their own namespace. No name restricts what is created.
func ownRules() []rbacv1.PolicyRule {
	leases := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}}
	create, renew := leases, leases
	create.Verbs = []string{"create"}
	renew.Verbs, renew.ResourceNames = []string{"get", "patch"}, []string{GuardName}
	return []rbacv1.PolicyRule{create, renew, {
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch"},
		ResourceNames: []string{guardHistory},
	}}
}

// guardRules returns what a guard may do in each namespace whose Services it guards. It creates Events on what it
// measured, which `kubectl describe` shows.
func guardRules() []rbacv1.PolicyRule {
	return append(append(needed(), spared(false)...),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}})
}

// everywhereRules returns what a guard of all namespaces may read besides. That it may read EvictionRequests is granted
// only here: the role admin has the right only where the API server serves them, and a Role that grants more than its
// creator has is refused. kube-proxy's configuration is in kube-system, where GKE Autopilot refuses a Role.
func everywhereRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		reading("", nodes), reading(lifecyclev1alpha1.GroupName, "evictionrequests"),
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"},
			ResourceNames: []string{"kube-proxy", "kube-proxy-config"}},
	}
}

func guardLabels() map[string]string {
	return map[string]string{nameLabel: GuardName, managedLabel: "lapse"}
}

func (g Guard) hasProbers() bool { return len(g.Probers) > 0 || g.ProberLabels != nil }

// subjects returns the guard's ServiceAccount.
func (g Guard) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: GuardName, Namespace: g.Namespace}}
}

func (g Guard) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: GuardName, Namespace: g.Namespace, Labels: guardLabels()}
}

func (g Guard) account() metav1.ObjectMeta {
	meta := g.meta()
	meta.Annotations = g.Annotations
	return meta
}

// clusterMeta has the guard's namespace in its name: another guard has rights of its own.
func (g Guard) clusterMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: GuardName + "-" + g.Namespace, Labels: guardLabels()}
}

func (g Guard) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: typeMeta("v1", "ConfigMap"), ObjectMeta: g.meta(),
		Data: map[string]string{guardFlagsKey: strings.Join(append(g.Flags, ""), "\n")},
	}
}

// service returns the Service of the gate.
func (g Guard) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta: typeMeta("v1", "Service"), ObjectMeta: g.meta(),
		Spec: corev1.ServiceSpec{
			Selector: guardLabels(),
			Ports: []corev1.ServicePort{{
				Name: "http-gate", Port: GatePort, TargetPort: intstr.FromInt32(GatePort),
			}},
		},
	}
}

// deployment returns the guard's Deployment: two Pods on two nodes, so that one measures when the other's node is
// drained; or one that ends before the next begins, where both would write to one claim. Like the Pod of a run it has
// no emptyDir: a drain would refuse to evict it.
func (g Guard) deployment() *appsv1.Deployment {
	podMeta := unmeshed(guardLabels())
	// what Prometheus' own example of a configuration, its chart and most agents go by
	podMeta.Annotations["prometheus.io/scrape"] = "true"
	podMeta.Annotations["prometheus.io/port"] = strconv.Itoa(GatePort)
	// The defaults of Kubernetes. Who does not write them does not own them, and cannot take them away for a claim.
	quarter := intstr.FromString("25%")
	replicas, strategy := int32(2), appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter},
	}
	if g.Claim != "" {
		replicas, strategy = 1, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	return &appsv1.Deployment{
		TypeMeta: typeMeta("apps/v1", "Deployment"), ObjectMeta: g.meta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Strategy: strategy,
			Selector: &metav1.LabelSelector{MatchLabels: guardLabels()},
			Template: corev1.PodTemplateSpec{ObjectMeta: podMeta, Spec: g.pod()},
		},
	}
}

func (g Guard) pod() corev1.PodSpec {
	config := Config{Image: g.Image, CPU: g.CPU}
	container := config.measuring(append(commonEnv(), fieldEnv(EnvPodIP, "status.podIP")), g.args()...)
	container.Ports = []corev1.ContainerPort{{Name: "gate", ContainerPort: GatePort}}
	if g.StoreSecret != "" {
		secret := &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: g.StoreSecret}}
		container.EnvFrom = []corev1.EnvFromSource{{SecretRef: secret}}
	}
	container.ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(GatePort)},
		},
		PeriodSeconds: 2,
	}
	pod := corev1.PodSpec{
		ServiceAccountName:            GuardName,
		TerminationGracePeriodSeconds: new(seconds(terminationGrace)),
		EnableServiceLinks:            new(false),
		ImagePullSecrets:              pullSecrets(g.ImagePullSecret),
		SecurityContext:               restricted(),
		NodeSelector:                  onLinux(g.Placement.NodeSelector),
		Affinity:                      g.Placement.Affinity,
		Tolerations:                   g.Placement.Tolerations,
		PriorityClassName:             g.Placement.PriorityClassName,
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: guardLabels()},
			// during a rollout the old Pods do not count: else both new ones may end up on one node
			MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
		}},
	}
	mount := func(name, at string, source corev1.VolumeSource) {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at})
	}
	mount("config", guardConfig, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: GuardName},
	}})
	if g.TokenSecret != "" {
		secret := &corev1.SecretVolumeSource{SecretName: g.TokenSecret}
		mount("token", guardSecret, corev1.VolumeSource{Secret: secret})
	}
	if g.Claim != "" {
		pod.SecurityContext.FSGroup = new(int64(user))
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: g.Claim}
		mount("runs", guardDir, corev1.VolumeSource{PersistentVolumeClaim: claim})
	}
	pod.Containers = []corev1.Container{container}
	return pod
}

func (g Guard) args() []string {
	out := DefaultDir
	if g.Claim != "" {
		out = guardDir
	}
	args := []string{"guard", "--out=" + out, "--config=" + path.Join(guardConfig, guardFlagsKey)}
	if g.TokenSecret != "" {
		args = append(args, "--token-file="+path.Join(guardSecret, guardTokenKey))
	}
	if g.Store != "" {
		args = append(args, "--store="+g.Store)
	}
	if g.StoreEndpoint != "" {
		args = append(args, "--store-endpoint="+g.StoreEndpoint)
	}
	if g.Claim == "" {
		args = append(args, "--lease="+GuardName, "--history="+guardHistory)
	}
	if g.hasProbers() {
		args = append(args, "--probers")
	}
	if g.AllNamespaces {
		args = append(args, allNamespaces)
	}
	return args // else of its own namespace, which the Pod knows
}
