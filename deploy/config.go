package deploy

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

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

func (c Config) deadline() time.Duration { return cmp.Or(c.Deadline, 24*time.Hour) }

func (c Config) hasProbers() bool { return len(c.Probers) > 0 || c.ProberLabels != nil }

// severalNamespaces reports whether the agent reads more than its own.
func (c Config) severalNamespaces() bool { return c.AllNamespaces || len(c.Namespaces) > 0 }

// outline is a configuration with the same objects, but for their contents.
func (c Config) outline() Config {
	return Config{
		Name: c.Name, Namespace: c.Namespace, NodesAccess: c.NodesAccess, Namespaces: c.Namespaces, AllNamespaces: c.AllNamespaces,
		Probers: c.Probers, ProberLabels: c.ProberLabels, Canary: c.Canary,
	}
}
