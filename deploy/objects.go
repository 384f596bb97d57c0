package deploy

import (
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Objects are all objects of a run.
type Objects struct {
	Secret             *corev1.Secret // nil without Private and Probers
	Keys               *corev1.Secret // nil unless Unattended; it is empty, and the agent fills it
	ServiceAccount     *corev1.ServiceAccount
	Role               *rbacv1.Role
	RoleBinding        *rbacv1.RoleBinding
	ClusterRole        *rbacv1.ClusterRole        // nil if the agent reads one namespace and no nodes
	ClusterRoleBinding *rbacv1.ClusterRoleBinding // as ClusterRole
	Elsewhere          []Grant                    // in each of Namespaces; owned by the ClusterRole
	Job                *batchv1.Job
	Probers            *appsv1.DaemonSet  // nil without Probers
	Canary             *appsv1.Deployment // nil without Canary
	CanaryService      *corev1.Service    // nil without Canary
	CanaryTwin         *corev1.Service    // nil without Canary
}

// All returns the objects in the order in which to apply them.
func (o Objects) All() []runtime.Object {
	var all []runtime.Object
	for _, object := range o.all() {
		all = append(all, object)
	}
	return all
}

func (o Objects) all() []object {
	all := []object{o.ServiceAccount, o.Role, o.RoleBinding, o.Secret, o.Keys, o.ClusterRole, o.ClusterRoleBinding}
	for _, g := range o.Elsewhere {
		all = append(all, g.Role, g.RoleBinding)
	}
	all = append(all, o.Job, o.Probers, o.Canary, o.CanaryService, o.CanaryTwin)
	return slices.DeleteFunc(all, func(object object) bool { return reflect.ValueOf(object).IsNil() })
}

// jobFirst returns the objects in the order of creation: the Job before those that it owns.
func (o Objects) jobFirst() []object {
	others := slices.DeleteFunc(o.all(), func(object object) bool { return object == o.Job })
	return append([]object{o.Job}, others...)
}

// belongTo makes the job the owner of the objects in its namespace. It annotates the ClusterRole, which it cannot own,
// with its UID.
func (o Objects) belongTo(job *batchv1.Job) {
	for _, object := range o.all() {
		if object != o.Job && object.GetNamespace() == o.Job.Namespace {
			object.SetOwnerReferences([]metav1.OwnerReference{owner(o.Job.TypeMeta, job)})
		}
	}
	if o.ClusterRole != nil {
		o.ClusterRole.Annotations = map[string]string{jobAnnotation: string(job.UID)}
	}
}

// belongToRole makes the ClusterRole the owner of the objects outside the Job's namespace.
func (o Objects) belongToRole(role *rbacv1.ClusterRole) {
	for _, object := range o.all() {
		if object != o.ClusterRole && object.GetNamespace() != o.Job.Namespace {
			object.SetOwnerReferences([]metav1.OwnerReference{owner(o.ClusterRole.TypeMeta, role)})
		}
	}
}

// owner returns a reference to object. The garbage collector deletes objects with the reference after object is gone.
// The reference does not delay the deletion of object (blockOwnerDeletion), because that needs further rights.
func owner(kind metav1.TypeMeta, object metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: kind.APIVersion,
		Kind:       kind.Kind,
		Name:       object.GetName(),
		UID:        object.GetUID(),
	}
}

// A Grant lets the agent read another namespace than its own.
type Grant struct {
	Role        *rbacv1.Role
	RoleBinding *rbacv1.RoleBinding
}

// Objects returns the run's objects. The values of two calls are equal and share nothing.
func (c Config) Objects() Objects {
	id := c.identity()
	objects := Objects{
		ServiceAccount: &corev1.ServiceAccount{TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: id.meta()},
		Role:           &rbacv1.Role{TypeMeta: typeMeta(rbacV1, "Role"), ObjectMeta: id.meta(), Rules: c.reads()},
		RoleBinding: &rbacv1.RoleBinding{
			TypeMeta: typeMeta(rbacV1, "RoleBinding"), ObjectMeta: id.meta(),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: c.Name},
			Subjects: c.subjects(),
		},
		Job: c.job(),
	}
	if secrets := c.secrets(); len(secrets) > 0 {
		objects.Secret = &corev1.Secret{
			TypeMeta:   typeMeta("v1", "Secret"),
			ObjectMeta: id.meta(),
			Immutable:  new(true),
			Data:       secrets,
		}
	}
	if c.hasProbers() {
		objects.Probers = c.daemonSet()
	}
	if c.Unattended {
		objects.Keys = c.emptyKeys()
		objects.Role.Rules = append(objects.Role.Rules, c.writes()...)
	}
	if c.CanaryPods > 0 {
		objects.Canary, objects.CanaryService, objects.CanaryTwin = c.canary()
	}
	if c.NodesAccess || c.severalNamespaces() {
		objects.ClusterRole = &rbacv1.ClusterRole{
			TypeMeta: typeMeta(rbacV1, "ClusterRole"), ObjectMeta: id.clusterMeta(), Rules: c.clusterReads(),
		}
		objects.ClusterRoleBinding = &rbacv1.ClusterRoleBinding{
			TypeMeta: typeMeta(rbacV1, "ClusterRoleBinding"), ObjectMeta: id.clusterMeta(),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterName(c.Name)},
			Subjects: c.subjects(),
		}
	}
	for _, namespace := range c.Namespaces {
		objects.Elsewhere = append(objects.Elsewhere, Grant{
			Role: &rbacv1.Role{TypeMeta: typeMeta(rbacV1, "Role"), ObjectMeta: id.metaIn(namespace), Rules: c.reads()},
			RoleBinding: &rbacv1.RoleBinding{
				TypeMeta: typeMeta(rbacV1, "RoleBinding"), ObjectMeta: id.metaIn(namespace),
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: c.Name},
				Subjects: c.subjects(),
			},
		})
	}
	return objects
}

// secrets returns the contents of the run's own Secret.
func (c Config) secrets() map[string][]byte {
	all := map[string][]byte{}
	if len(c.Private) > 0 {
		all[privateKey] = slices.Clone(c.Private)
	}
	if len(c.Probers) > 0 && !c.Unattended {
		all[authorityKey] = slices.Clone(c.Keys.Prober.CA)
		all[coordinatorKey+".crt"] = slices.Clone(c.Keys.Coordinator.Cert)
		all[coordinatorKey+".key"] = slices.Clone(c.Keys.Coordinator.Key)
		all[proberKey+".crt"] = slices.Clone(c.Keys.Prober.Cert)
		all[proberKey+".key"] = slices.Clone(c.Keys.Prober.Key)
	}
	return all
}

// emptyKeys returns the Secret that probers wait for: the kubelet does not start a container before the Secrets of its
// environment have their keys.
func (c Config) emptyKeys() *corev1.Secret {
	meta := c.identity().meta()
	meta.Name = keysName(c.Name)
	return &corev1.Secret{TypeMeta: typeMeta("v1", "Secret"), ObjectMeta: meta, Type: corev1.SecretTypeOpaque}
}
