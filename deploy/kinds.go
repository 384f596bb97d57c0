package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"lapse/internal/kube"
)

// A kind is a kind of object that runs consist of.
type kind struct {
	name, group string // of the API: "Role", "rbac.authorization.k8s.io"
	cluster     bool   // its objects are in no namespace
	elsewhere   bool   // a run has one of it in each further namespace that its agent reads
	outlives    bool   // an object of it can be there when its Job is gone
	reasons     []reason
	requests
}

// A reason is why the user needs rights to objects.
type reason struct {
	verbs   string // separated by spaces
	purpose string
	when    func(Needs) bool // nil: always
	lane    string           // as [Right.Lane]
}

// Needs are what not every run needs.
type Needs struct {
	Nodes   bool // the agent shall read nodes
	Secret  bool // something travels in a Secret
	Probers bool // probers run on nodes
	Canary  bool // a Service of the run's own is measured

	Namespaces    []string // others that the agent shall read
	AllNamespaces bool     // the agent shall read all
}

// several reports whether the agent shall read more than its own namespace.
func (n Needs) several() bool { return n.AllNamespaces || len(n.Namespaces) > 0 }

func (n Needs) nodesOnly() bool { return n.Nodes && !n.several() }
func (n Needs) secret() bool    { return n.Secret }
func (n Needs) probers() bool   { return n.Probers }
func (n Needs) canary() bool    { return n.Canary }

// nodes are what a ClusterRole is for.
const nodes = "nodes"

// A Right is one thing someone may do in a cluster.
type Right struct {
	Verb, Group, Resource, Subresource string
	Cluster                            bool   // not in a namespace
	For                                string // what Lapse needs it for
	Lane                               string // the resource that is not watched without it; empty: nothing can be measured
}

// kinds are those of a run. docs/reference/rights.md lists their rights in this order, those to ClusterRoles last.
var kinds = []kind{
	{name: "Job", group: batchv1.GroupName, outlives: true, requests: requestsTo(kube.Client.Jobs), reasons: []reason{
		{verbs: "create get list watch patch delete", purpose: "to run the agent"},
	}},
	{name: "ClusterRole", group: rbacv1.GroupName, cluster: true, outlives: true, requests: requestsTo(anywhere(kube.Client.ClusterRoles)), reasons: clusterReasons},
	{name: "ClusterRoleBinding", group: rbacv1.GroupName, cluster: true, outlives: true, requests: requestsTo(anywhere(kube.Client.ClusterRoleBindings)), reasons: clusterReasons},
	{name: "ServiceAccount", outlives: true, requests: requestsTo(kube.Client.ServiceAccounts), reasons: []reason{
		{verbs: "create", purpose: "to let the agent read"},
	}},
	{name: "Role", group: rbacv1.GroupName, elsewhere: true, outlives: true, requests: requestsTo(kube.Client.Roles), reasons: []reason{
		{verbs: "create", purpose: "to let the agent read"},
	}},
	{name: "RoleBinding", group: rbacv1.GroupName, elsewhere: true, outlives: true, requests: requestsTo(kube.Client.RoleBindings), reasons: []reason{
		{verbs: "create", purpose: "to let the agent read"},
	}},
	{name: "DaemonSet", group: appsv1.GroupName, outlives: true, requests: requestsTo(kube.Client.DaemonSets), reasons: []reason{
		{verbs: "create get delete", purpose: "to run the probers of --from", when: Needs.probers},
	}},
	{name: "Deployment", group: appsv1.GroupName, requests: requestsTo(kube.Client.Deployments), reasons: []reason{
		{verbs: "create get delete", purpose: "to bring a Service of its own", when: Needs.canary},
	}},
	{name: "Service", requests: requestsTo(kube.Client.Services), reasons: []reason{
		{verbs: "create get delete", purpose: "to bring a Service of its own", when: Needs.canary},
	}},
	// The Job owns a Secret, except an empty one: see deleteKeys.
	{name: "Secret", requests: requests{create: creation(kube.Client.Secrets)}, reasons: []reason{
		{verbs: "create", purpose: "to hand headers, --hammer and --echo to the agent", when: Needs.secret},
		{verbs: "create", purpose: "to give the probers of --from their keys", when: Needs.probers},
	}},
}

var clusterReasons = []reason{
	{verbs: "create get delete", purpose: "to let the agent read other namespaces", when: Needs.several},
	{verbs: "create get delete", purpose: "to let the agent read nodes", when: Needs.nodesOnly, lane: nodes},
}

// deletionOrder are the kinds in the order in which to delete their objects: first the Job, which ends the run, then
// the others of the table backwards.
func deletionOrder() []kind {
	order := slices.Clone(kinds)
	slices.Reverse(order[1:])
	return order
}

// kindOf returns the kind of an object of ours.
func kindOf(object object) kind {
	name := object.GetObjectKind().GroupVersionKind().Kind
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}

func (k kind) String() string { return k.name }

// resource is the kind's name in rights: "roles".
func (k kind) resource() string { return strings.ToLower(k.name) + "s" }

// qualified is what kubectl calls a resource: "roles.rbac.authorization.k8s.io".
func qualified(resource, group string) string { return strings.TrimSuffix(resource+"."+group, ".") }

// rights are the user's to objects of the kind.
func (k kind) rights(of Needs) []Right {
	var rights []Right
	for _, r := range k.reasons {
		if r.when == nil || r.when(of) {
			rights = append(rights, r.rights(Right{Group: k.group, Resource: k.resource(), Cluster: k.cluster})...)
		}
	}
	return rights
}

// rights returns a right for each verb. to says which objects it is to.
func (r reason) rights(to Right) []Right {
	var rights []Right
	for verb := range strings.FieldsSeq(r.verbs) {
		to.Verb, to.For, to.Lane = verb, r.purpose, r.lane
		rights = append(rights, to)
	}
	return rights
}

// An object is one of a run's.
type object interface {
	metav1.Object
	runtime.Object
}

// requests are those that are sent for the objects of a kind. All but create are nil if nobody reads them.
type requests struct {
	create func(context.Context, kube.Client, object) (object, error)
	get    func(ctx context.Context, c kube.Client, namespace, name string) (object, error)
	list   func(ctx context.Context, c kube.Client, namespace string, options metav1.ListOptions) (runtime.Object, error)
	delete func(ctx context.Context, c kube.Client, namespace, name string, options metav1.DeleteOptions) error
}

func requestsTo[T object, L runtime.Object](objects func(kube.Client, string) kube.Objects[T, L]) requests {
	return requests{
		create: creation(objects),
		get: func(ctx context.Context, c kube.Client, namespace, name string) (object, error) {
			return objects(c, namespace).Get(ctx, name, metav1.GetOptions{})
		},
		list: func(ctx context.Context, c kube.Client, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return objects(c, namespace).List(ctx, options)
		},
		delete: func(ctx context.Context, c kube.Client, namespace, name string, options metav1.DeleteOptions) error {
			return objects(c, namespace).Delete(ctx, name, options)
		},
	}
}

func creation[T object, C kube.Creator[T]](objects func(kube.Client, string) C) func(context.Context, kube.Client, object) (object, error) {
	return func(ctx context.Context, c kube.Client, object object) (object, error) {
		return objects(c, object.GetNamespace()).Create(ctx, object.(T), metav1.CreateOptions{})
	}
}

func anywhere[O any](objects func(kube.Client) O) func(kube.Client, string) O {
	return func(c kube.Client, _ string) O { return objects(c) }
}

// remove deletes one object if it is there and ours.
func (k kind) remove(ctx context.Context, c kube.Client, namespace, name string, options metav1.DeleteOptions) error {
	object, err := k.get(ctx, c, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up %s %s: %w", k, name, err)
	}
	if !ours(object) {
		return nil
	}
	if err := k.delete(ctx, c, namespace, name, options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", k, name, err)
	}
	return nil
}

// ours reports whether an object belongs to a run.
func ours(object metav1.Object) bool { return object.GetLabels()[RunLabel] != "" }
