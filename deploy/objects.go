package deploy

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"lapse/deploy/agent"
	"lapse/hint"
)

// What the objects and the agent agree on.
const (
	// RunLabel is on every object of a run; its value is the run's name.
	RunLabel = "lapse.dev/run"
	// NamespaceLabel is on a run's objects outside of the namespace of its Job, which is its value.
	NamespaceLabel = "lapse.dev/namespace"
	// jobAnnotation is on the ClusterRole that [Create] has made: the UID of its Job.
	jobAnnotation = "lapse.dev/job-uid"
	// ManagedLabel has the value "lapse" on everything this package creates.
	ManagedLabel = "app.kubernetes.io/managed-by"

	// ContainerName is the name of the agent's container.
	ContainerName = "lapse"
	// DefaultDir is where the agent keeps its recording: the image's /tmp, which has mode 1777.
	DefaultDir = "/tmp/lapse"
)

// The environment of the agent's container. That EnvListen is set is how the binary learns that it
// is the agent.
const (
	EnvListen    = "LAPSE_LISTEN"   // address of the agent's API: 127.0.0.1:8089
	EnvDir       = "LAPSE_DIR"      // directory for the recording, to be created
	EnvHold      = "LAPSE_HOLD"     // how long to wait for retrieval after the end: a Go duration
	EnvDeadline  = "LAPSE_DEADLINE" // after how long Kubernetes ends the Pod: a Go duration
	EnvRun       = "LAPSE_RUN"      // the run's name
	EnvSpec      = "LAPSE_SPEC"     // what the run is to do: what [Config.Spec] holds
	EnvPrivate   = "LAPSE_PRIVATE"  // its secrets: what [Config.Private] holds
	EnvHeader    = "LAPSE_HEADER_"  // begins the name of each header from a Secret: LAPSE_HEADER_0_Authorization
	EnvEcho      = "LAPSE_ECHO"     // the text to echo, from a Secret
	EnvTLSCA     = "LAPSE_TLS_CA"   // in PEM form, of a coordinator and its probers: whom to trust,
	EnvTLSCert   = "LAPSE_TLS_CERT" // who this is,
	EnvTLSKey    = "LAPSE_TLS_KEY"  // and the key to that
	EnvKeys      = "LAPSE_KEYS"     // of a coordinator that makes these itself: the Secret its probers' go into
	EnvNode      = "NODE_NAME"
	EnvPod       = "POD_NAME"
	EnvNamespace = "POD_NAMESPACE"
)

// DefaultCPU is what an agent uses at the default rates: 0.23 to 0.35 of a core, measured in a virtual machine of 2 cores. The request is
// also the weight by which the kernel shares a busy node's CPU out among its Pods.
const DefaultCPU = "300m"

// The agent needs little else. 6 h at 2000 requests per second are a recording of 65 MB.
const (
	memoryRequest  = "128Mi"
	memoryLimit    = "512Mi"
	softMemory     = "208MiB" // GOMEMLIMIT: above it, garbage is collected more often instead of using more memory; a run that needs more raises it
	storageRequest = "256Mi"

	// What finished stays for an hour, so that its log can still be read.
	ttlAfterFinished = time.Hour
	// After SIGTERM the agent ends the run, judges it and prints it. It exits when that is done.
	terminationGrace = time.Minute

	user = 65532 // "nonroot" of distroless images; the image has no passwd file to look it up in
)

// MostMemory is up to how many bytes the agent may use in all, below the container's limit of 512 MiB.
const MostMemory = 450 << 20

// A Config says how a run looks in the cluster.
type Config struct {
	Name      string // of every object, and no other run's
	Namespace string // where the Service is; empty leaves it to whoever applies the YAML

	Image           string
	ImagePullSecret string // optional

	CPU      string        // how much the Pod asks for, a Kubernetes quantity; default [DefaultCPU]
	Args     []string      // of the container: the command line after "lapse"
	Spec     []byte        // what the agent is to do, as JSON: it travels in [EnvSpec], for all to read, at most [MaxValue] bytes
	Private  []byte        // its secrets, in [EnvPrivate]: they travel in a Secret of the run's own, at most [MaxValue] bytes
	Hold     time.Duration // how long the agent waits for retrieval; default 10 min
	Deadline time.Duration // when Kubernetes ends the run, come what may; default 24 h

	// AvoidNodes are never scheduled to: the nodes about to be drained.
	AvoidNodes []string
	// SpareNodes are scheduled to only if nothing else is left: those that run the Service's Pods.
	// [Create] fills it in from Selectors.
	SpareNodes []string
	// Selectors of the measured Services. The agent must not be one of their endpoints, and
	// stays away from the Pods they select.
	Selectors []map[string]string

	// HeadersFrom are Secrets that are there already: each key is the name of a header to send, its value the header's. EchoFrom
	// is one whose key "echo" holds the text to echo. The kubelet hands them to the agent, which may read no Secret.
	HeadersFrom []string
	EchoFrom    string

	// Probers are nodes to measure from, each by a Pod of its own. Keys are made for the run ([NewKeys]).
	Probers []string
	Keys    Keys
	// Unattended is a run with probers that somebody applies. No workstation makes Keys, and none deletes the probers at the end: the
	// agent does both ([HandOutKeys], [DismissProbers]), and may change these two objects. ProberLabels can stand in for Probers.
	Unattended   bool
	ProberLabels labels.Selector // of the nodes to measure from; [labels.Everything] are all

	// Canary brings a Service of the run's own to be measured ([CanaryName]), and a headless one with the same Pods ([TwinName]).
	Canary bool

	// Namespaces are further ones with Services that are measured: the agent gets a Role in each. AllNamespaces lets it read everywhere, by a ClusterRole.
	Namespaces    []string
	AllNamespaces bool

	NodesAccess bool     // also let the agent read nodes; needs a ClusterRole
	Unread      []string // resources of the namespace that the agent may not read, of those that it can do without

	// NoStorageRequest leaves out the request for ephemeral storage, for nodes that do not
	// account for it. [Create] sees to it where it may read nodes.
	NoStorageRequest bool
}

// Validate reports what about the configuration the API server, or common sense, would refuse.
func (c Config) Validate() error {
	if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 {
		return fmt.Errorf("run name %q: %s", c.Name, problems[0])
	}
	if len(c.Name) > maxName {
		return fmt.Errorf("run name %q: longer than %d characters", c.Name, maxName)
	}
	if c.Image == "" {
		return hint.Errorf("name one with --image", "no image to run in the cluster")
	}
	if len(c.Private) > MaxValue {
		return hint.Errorf("give a long body less, or measure a URL from here",
			"headers, --hammer and --echo are %d bytes, and the agent takes %d", len(c.Private), MaxValue)
	}
	if len(c.Spec) > MaxValue {
		return hint.Errorf("give a --ca-file with fewer certificates, choose fewer Services with --selector, or measure a URL from here",
			"the flags and the chosen Services are %d bytes, and the agent takes %d", len(c.Spec), MaxValue)
	}
	if err := CheckCPU(c.CPU); err != nil {
		return err
	}
	for _, node := range c.Probers {
		if len(validation.IsDNS1123Subdomain(node)) > 0 {
			return hint.Errorf("name nodes as `kubectl get nodes` does, as in --from node1,node2", "--from: %q is no name of a node", node)
		}
	}
	for _, node := range c.AvoidNodes {
		if len(validation.IsDNS1123Subdomain(node)) > 0 {
			return hint.Errorf("name the nodes to keep off as `kubectl get nodes` does, as in --avoid-node node1,node3",
				"%q is no name of a node: names have lower case letters, digits, '-' and '.' only, and begin and end with a letter or digit", node)
		}
	}
	for _, selector := range c.Selectors {
		if len(selector) > 0 && (matches(selector, c.labels()) || c.hasProbers() && matches(selector, c.proberLabels())) {
			return hint.Errorf("give the Service a selector that names its workload",
				"the Service's selector %s would also select Lapse's own Pod", labels.Set(selector))
		}
	}
	return nil
}

func matches(selector, of map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(of))
}

// CheckCPU says what is wrong with the CPU that a run asks for. Empty is the default.
func CheckCPU(text string) error {
	if text == "" {
		return nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 || q.MilliValue() > mostCPU {
		return fmt.Errorf("cpu %q: must be an amount of CPU from 1m to %d cores", text, mostCPU/1000)
	}
	return nil
}

// mostCPU is more than any prober can use, in thousandths of a core.
const mostCPU = 64_000

// MaxValue is how long [Config.Spec] and [Config.Private] may be. Linux takes 128 KiB for one environment variable.
const MaxValue = 100 << 10

// privateKey is the key of the run's own Secret, echoKey that of [Config.EchoFrom].
const (
	privateKey = "flags"
	echoKey    = "echo"
)

// KeysName is the name of the Secret that the agent of an unattended run puts the probers' keys into.
func KeysName(run string) string { return run + "-keys" }

// The keys of the run's own Secret that have a [Keys] in them.
const (
	authorityKey   = "ca.crt"
	coordinatorKey = "coordinator"
	proberKey      = "prober"
)

// maxName leaves room for what the Job controller and we append.
const maxName = 63 - len("-probers")

// Objects are everything a run puts into the cluster.
type Objects struct {
	Secret             *corev1.Secret // nil without Private and Probers
	Keys               *corev1.Secret // nil unless Unattended; empty, the agent fills it
	ServiceAccount     *corev1.ServiceAccount
	Role               *rbacv1.Role
	RoleBinding        *rbacv1.RoleBinding
	ClusterRole        *rbacv1.ClusterRole        // nil where the agent reads one namespace, and no nodes
	ClusterRoleBinding *rbacv1.ClusterRoleBinding // as ClusterRole
	Elsewhere          []Grant                    // in each of Namespaces; the ClusterRole owns them, for no Job can
	Job                *batchv1.Job
	Probers            *appsv1.DaemonSet  // nil without Probers
	Canary             *appsv1.Deployment // nil without Canary
	CanaryService      *corev1.Service    // nil without Canary
	CanaryTwin         *corev1.Service    // nil without Canary
}

// All lists the objects in an order in which they can be applied.
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

// jobFirst lists the objects in the order in which they are created: what the Job owns comes after it.
func (o Objects) jobFirst() []object {
	others := slices.DeleteFunc(o.all(), func(object object) bool { return object == o.Job })
	return append([]object{o.Job}, others...)
}

// belongTo makes the job the owner of what is in its namespace. It cannot own what is outside of that. The ClusterRole remembers it.
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

// belongToRole makes the ClusterRole the owner of what is outside of the Job's namespace.
func (o Objects) belongToRole(role *rbacv1.ClusterRole) {
	for _, object := range o.all() {
		if object != o.ClusterRole && object.GetNamespace() != o.Job.Namespace {
			object.SetOwnerReferences([]metav1.OwnerReference{owner(o.ClusterRole.TypeMeta, role)})
		}
	}
}

// owner is a reference that lets the garbage collector delete what has it once object is gone. It does not hold up the
// deletion of object (blockOwnerDeletion), for which more rights would be needed.
func owner(kind metav1.TypeMeta, object metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: kind.APIVersion, Kind: kind.Kind, Name: object.GetName(), UID: object.GetUID()}
}

// A Grant lets the agent read a namespace that is not its own.
type Grant struct {
	Role        *rbacv1.Role
	RoleBinding *rbacv1.RoleBinding
}

// Objects returns the run's objects. Two calls return equal values that share nothing.
func (c Config) Objects() Objects {
	objects := Objects{
		ServiceAccount: &corev1.ServiceAccount{TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: c.meta()},
		Role:           &rbacv1.Role{TypeMeta: typeMeta(rbacV1, "Role"), ObjectMeta: c.meta(), Rules: c.reads()},
		RoleBinding: &rbacv1.RoleBinding{
			TypeMeta: typeMeta(rbacV1, "RoleBinding"), ObjectMeta: c.meta(),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: c.Name},
			Subjects: c.subjects(),
		},
		Job: c.job(),
	}
	if secrets := c.secrets(); len(secrets) > 0 {
		objects.Secret = &corev1.Secret{TypeMeta: typeMeta("v1", "Secret"), ObjectMeta: c.meta(), Immutable: new(true), Data: secrets}
	}
	if c.hasProbers() {
		objects.Probers = c.daemonSet()
	}
	if c.Unattended {
		objects.Keys = c.emptyKeys()
		objects.Role.Rules = append(objects.Role.Rules, c.writes()...)
	}
	if c.Canary {
		objects.Canary, objects.CanaryService, objects.CanaryTwin = c.canary()
	}
	if c.NodesAccess || c.severalNamespaces() {
		objects.ClusterRole = &rbacv1.ClusterRole{
			TypeMeta: typeMeta(rbacV1, "ClusterRole"), ObjectMeta: c.clusterMeta(), Rules: c.clusterReads(),
		}
		objects.ClusterRoleBinding = &rbacv1.ClusterRoleBinding{
			TypeMeta: typeMeta(rbacV1, "ClusterRoleBinding"), ObjectMeta: c.clusterMeta(),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterName(c.Name)},
			Subjects: c.subjects(),
		}
	}
	for _, namespace := range c.Namespaces {
		objects.Elsewhere = append(objects.Elsewhere, Grant{
			Role: &rbacv1.Role{TypeMeta: typeMeta(rbacV1, "Role"), ObjectMeta: c.metaIn(namespace), Rules: c.reads()},
			RoleBinding: &rbacv1.RoleBinding{
				TypeMeta: typeMeta(rbacV1, "RoleBinding"), ObjectMeta: c.metaIn(namespace),
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: c.Name},
				Subjects: c.subjects(),
			},
		})
	}
	return objects
}

// outline is a configuration with the same objects, but for their contents.
func (c Config) outline() Config {
	return Config{
		Name: c.Name, Namespace: c.Namespace, NodesAccess: c.NodesAccess, Namespaces: c.Namespaces, AllNamespaces: c.AllNamespaces,
		Probers: c.Probers, ProberLabels: c.ProberLabels, Canary: c.Canary,
	}
}

// severalNamespaces reports whether the agent reads more than its own.
func (c Config) severalNamespaces() bool { return c.AllNamespaces || len(c.Namespaces) > 0 }

// secrets are what the run's own Secret holds.
func (c Config) secrets() map[string][]byte {
	all := map[string][]byte{}
	if len(c.Private) > 0 {
		all[privateKey] = slices.Clone(c.Private)
	}
	if len(c.Probers) > 0 && !c.Unattended {
		maps.Copy(all, map[string][]byte{
			authorityKey:            slices.Clone(c.Keys.Prober.CA),
			coordinatorKey + ".crt": slices.Clone(c.Keys.Coordinator.Cert), coordinatorKey + ".key": slices.Clone(c.Keys.Coordinator.Key),
			proberKey + ".crt": slices.Clone(c.Keys.Prober.Cert), proberKey + ".key": slices.Clone(c.Keys.Prober.Key),
		})
	}
	return all
}

const rbacV1 = "rbac.authorization.k8s.io/v1"

func typeMeta(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

// reads is all that the agent of an attended run may do in its namespace. There is no write among it, and no secret.
func (c Config) reads() []rbacv1.PolicyRule {
	rules := needed()
	for _, rule := range spared() {
		rule.Resources = slices.DeleteFunc(rule.Resources, func(resource string) bool { return slices.Contains(c.Unread, resource) })
		if len(rule.Resources) > 0 {
			rules = append(rules, rule)
		}
	}
	return rules
}

// needed is what the agent cannot do without.
func needed() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		reading("", "pods", "services", "events"),
		reading("discovery.k8s.io", "endpointslices"),
	}
}

// spared is what causes are judged better with: each resource that may not be read is a lane that is off.
func spared() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		reading("apps", "deployments", "replicasets", "statefulsets"),
		reading("policy", "poddisruptionbudgets"),
	}
}

// clusterReads is all the agent may do beyond its namespaces. Where there is nothing, the ClusterRole only owns the Roles of other namespaces.
func (c Config) clusterReads() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{}
	if c.NodesAccess {
		rules = append(rules, reading("", nodes))
	}
	if c.AllNamespaces {
		rules = append(rules, c.reads()...)
	}
	return rules
}

// readVerbs are those of what is read, separated by spaces.
const readVerbs = "get list watch"

func reading(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: strings.Fields(readVerbs)}
}

// clusterName is the name of a run's objects outside its namespace.
func clusterName(run string) string { return run + "-nodes" }

func (c Config) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace, Labels: c.labels()}
}

// metaIn is of an object in another namespace than the run's. A label says where that is.
func (c Config) metaIn(namespace string) metav1.ObjectMeta {
	all := c.labels()
	all[NamespaceLabel] = c.Namespace
	return metav1.ObjectMeta{Name: c.Name, Namespace: namespace, Labels: all}
}

func (c Config) clusterMeta() metav1.ObjectMeta {
	all := c.labels()
	if c.Namespace != "" {
		all[NamespaceLabel] = c.Namespace
	}
	return metav1.ObjectMeta{Name: clusterName(c.Name), Labels: all}
}

func (c Config) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "lapse", ManagedLabel: "lapse", RunLabel: c.Name}
}

// subjects names the ServiceAccount. Without a namespace it is looked for in the RoleBinding's own.
func (c Config) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: c.Name, Namespace: c.Namespace}}
}

func (c Config) job() *batchv1.Job {
	return &batchv1.Job{
		TypeMeta: typeMeta("batch/v1", "Job"), ObjectMeta: c.meta(),
		Spec: batchv1.JobSpec{
			// A second Pod would measure something else under the same name. The run ends with its Pod.
			BackoffLimit:            new(int32(0)),
			PodReplacementPolicy:    new(batchv1.Failed),
			ActiveDeadlineSeconds:   new(seconds(c.deadline())),
			TTLSecondsAfterFinished: new(int32(seconds(ttlAfterFinished))),
			Template:                c.podTemplate(),
		},
	}
}

func (c Config) deadline() time.Duration { return cmp.Or(c.Deadline, 24*time.Hour) }

// seconds rounds d up to whole seconds.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// podTemplate is the agent's Pod.
//
// It has no volumes: an emptyDir would make `kubectl drain` of its node refuse, and the instrument
// must not change the experiment. So the recording lies in the container's writable layer, and
// the root file system cannot be read-only. Everything else is as the "restricted" Pod Security
// Standard demands. There are no tolerations and no PodDisruptionBudget: Lapse goes where any Pod
// goes, and goes when asked. Nor do annotations keep an autoscaler off its node (cluster-autoscaler's
// safe-to-evict: "false", Karpenter's do-not-disrupt): a scale-down that somebody wants to measure would
// leave out the node that Lapse happens to be on. An agent that is evicted ends its run and hands over what it has.
func (c Config) podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: c.podLabels(),
			Annotations: map[string]string{
				"linkerd.io/inject": "disabled", // see podLabels
			},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            c.Name,
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(seconds(terminationGrace)),
			EnableServiceLinks:            new(false),
			Affinity:                      c.affinity(),
			ImagePullSecrets:              c.pullSecrets(),
			SecurityContext:               restricted(),
			Containers:                    []corev1.Container{c.container()},
		},
	}
}

// restricted is what the "restricted" Pod Security Standard demands of a Pod.
func restricted() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		RunAsUser:      new(int64(user)),
		RunAsGroup:     new(int64(user)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// podLabels keep service meshes from adding a proxy: it would re-send what failed, outlive
// the agent, and bring an emptyDir.
func (c Config) podLabels() map[string]string {
	all := c.labels()
	all["sidecar.istio.io/inject"] = cmp.Or(all["sidecar.istio.io/inject"], "false")
	return all
}

func (c Config) container() corev1.Container {
	container := c.measuring(c.environment(), c.Args...)
	container.EnvFrom = c.headers()
	return container
}

// measuring is a container that measures.
func (c Config) measuring(environment []corev1.EnvVar, args ...string) corev1.Container {
	return corev1.Container{
		Name:            ContainerName,
		Image:           c.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            slices.Clone(args),
		Env:             environment,
		Resources:       c.resources(),
		// If the agent dies before it wrote its verdict, the end of its log says why.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			Privileged:               new(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			ReadOnlyRootFilesystem:   new(false), // see podTemplate
		},
	}
}

func (c Config) environment() []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: EnvListen, Value: "127.0.0.1:" + strconv.Itoa(agent.DefaultPort)},
		{Name: EnvDir, Value: DefaultDir},
		{Name: EnvHold, Value: cmp.Or(c.Hold, 10*time.Minute).String()},
		{Name: EnvDeadline, Value: c.deadline().String()},
		{Name: EnvRun, Value: c.Name},
	}
	env = append(env, commonEnv()...)
	switch {
	case c.Unattended:
		env = append(env, corev1.EnvVar{Name: EnvKeys, Value: KeysName(c.Name)})
	case c.hasProbers():
		env = append(env, c.keyEnv(coordinatorKey)...)
	}
	if len(c.Spec) > 0 {
		// In a value Kubernetes replaces $(NAME). JSON writes a dollar so that there is none.
		env = append(env, corev1.EnvVar{Name: EnvSpec, Value: strings.ReplaceAll(string(c.Spec), "$", `\u0024`)})
	}
	if len(c.Private) > 0 {
		env = append(env, secretEnv(EnvPrivate, c.Name, privateKey))
	}
	if c.EchoFrom != "" {
		env = append(env, secretEnv(EnvEcho, c.EchoFrom, echoKey))
	}
	return env
}

// commonEnv tells a process where it runs, and how much memory to use.
func commonEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		fieldEnv(EnvNode, "spec.nodeName"),
		fieldEnv(EnvPod, "metadata.name"),
		fieldEnv(EnvNamespace, "metadata.namespace"),
		{Name: "GOMEMLIMIT", Value: softMemory},
	}
}

// keyEnv hands one side its keys.
func (c Config) keyEnv(side string) []corev1.EnvVar {
	secret := c.Name
	if c.Unattended {
		secret = KeysName(c.Name)
	}
	return []corev1.EnvVar{
		secretEnv(EnvTLSCA, secret, authorityKey), secretEnv(EnvTLSCert, secret, side+".crt"), secretEnv(EnvTLSKey, secret, side+".key"),
	}
}

// headers are the Secrets whose keys become variables. A number keeps apart those of several that have the same key.
func (c Config) headers() []corev1.EnvFromSource {
	var from []corev1.EnvFromSource
	for i, name := range c.HeadersFrom {
		from = append(from, corev1.EnvFromSource{
			Prefix:    EnvHeader + strconv.Itoa(i) + "_",
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		})
	}
	return from
}

func secretEnv(name, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key},
	}}
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}
}

// resources has no CPU limit: throttling would fake latency.
func (c Config) resources() corev1.ResourceRequirements {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:              c.cpu(),
		corev1.ResourceMemory:           resource.MustParse(memoryRequest),
		corev1.ResourceEphemeralStorage: resource.MustParse(storageRequest),
	}
	if c.NoStorageRequest {
		delete(requests, corev1.ResourceEphemeralStorage)
	}
	return corev1.ResourceRequirements{
		Requests: requests,
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)},
	}
}

// cpu is what the Pod asks for, as far as CheckCPU passes it.
func (c Config) cpu() resource.Quantity {
	q, err := resource.ParseQuantity(cmp.Or(c.CPU, DefaultCPU))
	if err != nil {
		return resource.MustParse(DefaultCPU)
	}
	return q
}

func (c Config) pullSecrets() []corev1.LocalObjectReference {
	if c.ImagePullSecret == "" {
		return nil
	}
	return []corev1.LocalObjectReference{{Name: c.ImagePullSecret}}
}

// affinity keeps the agent off the nodes to be drained, and rather off those of the Service.
//
// The latter is a preference among nodes, and not an anti-affinity to the Service's Pods, because
// the scheduler reads a preferred pod anti-affinity both ways: it would keep the Service's own
// replacement Pods away from the agent's node, and so change the drain that is measured.
func (c Config) affinity() *corev1.Affinity {
	if len(c.AvoidNodes)+len(c.SpareNodes) == 0 {
		return nil
	}
	node := &corev1.NodeAffinity{}
	if len(c.AvoidNodes) > 0 {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{notNamed(c.AvoidNodes)},
		}
	}
	if len(c.SpareNodes) > 0 {
		node.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: 100, Preference: notNamed(c.SpareNodes)},
		}
	}
	return &corev1.Affinity{NodeAffinity: node}
}

// notNamed matches every node but these. It compares names and not the label kubernetes.io/hostname,
// which may differ; the API allows one value per requirement on a name.
func notNamed(nodes []string) corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for _, node := range nodes {
		term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{node},
		})
	}
	return term
}
