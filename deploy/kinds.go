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

// A kind is a kind of object of a run.
type kind struct {
	name, group string // of the API: "Role", "rbac.authorization.k8s.io"
	cluster     bool   // its objects are in no namespace
	elsewhere   bool   // a run has one in each further namespace that its agent reads
	outlives    bool   // an object may remain when its Job is gone
	reasons     []reason
	requests
}

// A reason is why the user needs rights to objects.
type reason struct {
	verbs   string // separated by spaces
	purpose string
	when    func(Needs) bool // nil: always
	lane    string           // see [Right]
}

// Needs says what a run needs that not every run needs.
type Needs struct {
	Nodes   bool // the agent reads nodes
	Secret  bool // the run has a Secret
	Probers bool // probers run on nodes
	Canary  bool // the run measures a Service of its own

	EvictionRequests bool // the agent reads EvictionRequests: the API server serves them

	Namespaces    []string // other namespaces that the agent reads
	AllNamespaces bool     // the agent reads all namespaces
}

// several reports whether the agent reads more than its own namespace.
func (n Needs) several() bool { return n.AllNamespaces || len(n.Namespaces) > 0 }

func (n Needs) nodesOnly() bool { return n.Nodes && !n.several() }
func (n Needs) secret() bool    { return n.Secret }
func (n Needs) probers() bool   { return n.Probers }
func (n Needs) canary() bool    { return n.Canary }

// nodes is the resource for which the agent needs a ClusterRole.
const nodes = "nodes"

// A Right allows one verb on a resource. Without a right that has no Lane nothing can be measured.
type Right struct {
	Verb, Group, Resource, Subresource string
	Cluster                            bool   // not in a namespace
	For                                string // what Lapse needs it for
	Lane                               string // the resource that is not watched without the right
}

// kinds are the kinds of a run. docs/reference/rights.md lists their rights in this order, the ClusterRoles' last.
var kinds = []kind{
	{
		name:     "Job",
		group:    batchv1.GroupName,
		outlives: true,
		requests: requestsTo(kube.Client.Jobs),
		reasons:  []reason{{verbs: "create get list watch patch delete", purpose: "to run the agent"}},
	},
	{
		name:     "ClusterRole",
		group:    rbacv1.GroupName,
		cluster:  true,
		outlives: true,
		requests: requestsTo(anywhere(kube.Client.ClusterRoles)),
		reasons:  clusterReasons,
	},
	{
		name:     "ClusterRoleBinding",
		group:    rbacv1.GroupName,
		cluster:  true,
		outlives: true,
		requests: requestsTo(anywhere(kube.Client.ClusterRoleBindings)),
		reasons:  clusterReasons,
	},
	{
		name:     "ServiceAccount",
		outlives: true,
		requests: requestsTo(kube.Client.ServiceAccounts),
		reasons:  []reason{{verbs: "create", purpose: "to let the agent read"}},
	},
	{
		name:      "Role",
		group:     rbacv1.GroupName,
		elsewhere: true,
		outlives:  true,
		requests:  requestsTo(kube.Client.Roles),
		reasons:   []reason{{verbs: "create", purpose: "to let the agent read"}},
	},
	{
		name:      "RoleBinding",
		group:     rbacv1.GroupName,
		elsewhere: true,
		outlives:  true,
		requests:  requestsTo(kube.Client.RoleBindings),
		reasons:   []reason{{verbs: "create", purpose: "to let the agent read"}},
	},
	{
		name:     "DaemonSet",
		group:    appsv1.GroupName,
		outlives: true,
		requests: requestsTo(kube.Client.DaemonSets),
		reasons:  []reason{{verbs: "create get delete", purpose: "to run the probers of --from", when: Needs.probers}},
	},
	{
		name:     "Deployment",
		group:    appsv1.GroupName,
		requests: requestsTo(kube.Client.Deployments),
		reasons:  canaryReasons,
	},
	{
		name:     "Service",
		requests: requestsTo(kube.Client.Services),
		reasons:  canaryReasons,
	},
	{
		name:     "Secret", // the Job owns it, except an empty one: see deleteKeys
		requests: requests{create: creation(kube.Client.Secrets)},
		reasons: []reason{
			{verbs: "create", purpose: "to hand headers, --hammer and --echo to the agent", when: Needs.secret},
			{verbs: "create", purpose: "to give the probers of --from their keys", when: Needs.probers},
		},
	},
}

var canaryReasons = []reason{
	{verbs: "create get delete", purpose: "to bring a Service of its own", when: Needs.canary},
}

var clusterReasons = []reason{
	{verbs: "create get delete", purpose: "to let the agent read other namespaces", when: Needs.several},
	{verbs: "create get delete", purpose: "to let the agent read nodes", when: Needs.nodesOnly, lane: nodes},
}

// deletionOrder returns the kinds in the order in which to delete their objects: first the Job, which ends the run,
// then the others in reverse order.
func deletionOrder() []kind {
	order := slices.Clone(kinds)
	slices.Reverse(order[1:])
	return order
}

// kindOf returns the kind of an object of a run.
func kindOf(object object) kind {
	name := object.GetObjectKind().GroupVersionKind().Kind
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}

func (k kind) String() string { return k.name }

// resource returns the kind's name in rights: "roles".
func (k kind) resource() string { return strings.ToLower(k.name) + "s" }

// qualified returns a resource's name for kubectl: "roles.rbac.authorization.k8s.io".
func qualified(resource, group string) string { return strings.TrimSuffix(resource+"."+group, ".") }

// rights returns the rights that the user needs to objects of the kind.
func (k kind) rights(of Needs) []Right {
	var rights []Right
	for _, r := range k.reasons {
		if r.when == nil || r.when(of) {
			rights = append(rights, r.rights(Right{Group: k.group, Resource: k.resource(), Cluster: k.cluster})...)
		}
	}
	return rights
}

// rights returns a right for each verb. to names the resource.
func (r reason) rights(to Right) []Right {
	var rights []Right
	for verb := range strings.FieldsSeq(r.verbs) {
		to.Verb, to.For, to.Lane = verb, r.purpose, r.lane
		rights = append(rights, to)
	}
	return rights
}

// An object is an object of a run.
type object interface {
	metav1.Object
	runtime.Object
}

// requests are requests for the objects of a kind. All but create are nil if Lapse does not read them.
type requests struct {
	create create
	get    func(ctx context.Context, c kube.Client, namespace, name string) (object, error)
	list   func(context.Context, kube.Client, string, metav1.ListOptions) (runtime.Object, error) // in a namespace
	delete func(ctx context.Context, c kube.Client, namespace, name string, options metav1.DeleteOptions) error
}

type create func(context.Context, kube.Client, object) (object, error)

func requestsTo[T object, L runtime.Object](objects func(kube.Client, string) kube.Objects[T, L]) requests {
	return requests{
		create: creation(objects),
		get: func(ctx context.Context, c kube.Client, namespace, name string) (object, error) {
			return objects(c, namespace).Get(ctx, name, metav1.GetOptions{})
		},
		list: func(ctx context.Context, c kube.Client, namespace string, o metav1.ListOptions) (runtime.Object, error) {
			return objects(c, namespace).List(ctx, o)
		},
		delete: func(ctx context.Context, c kube.Client, namespace, name string, options metav1.DeleteOptions) error {
			return objects(c, namespace).Delete(ctx, name, options)
		},
	}
}

func creation[T object, C kube.Creator[T]](objects func(kube.Client, string) C) create {
	return func(ctx context.Context, c kube.Client, object object) (object, error) {
		return objects(c, object.GetNamespace()).Create(ctx, object.(T), metav1.CreateOptions{})
	}
}

func anywhere[O any](objects func(kube.Client) O) func(kube.Client, string) O {
	return func(c kube.Client, _ string) O { return objects(c) }
}

// remove deletes an object if it exists and belongs to a run.
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
