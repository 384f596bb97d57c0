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

	CPU      string        // the Pod's CPU request, a Kubernetes quantity; default [DefaultCPU]
	Args     []string      // of the container: the command line after "lapse"
	Spec     []byte        // the agent's task as JSON, in [EnvSpec], without secrets; at most 100 KiB
	Private  []byte        // its secrets, in [EnvPrivate], from a Secret of the run's own; at most 100 KiB
	Hold     time.Duration // how long the agent waits for retrieval; default 10 min
	Deadline time.Duration // when Kubernetes ends the run in any case; default 24 h

	// The Job's Pod runs on none of AvoidNodes: they are about to be drained.
	AvoidNodes []string
	// It runs on one of SpareNodes only if there is no other: they run the Service's Pods.
	// [Create] adds nodes by Selectors.
	SpareNodes []string
	// Selectors of the measured Services. The agent must not be one of their endpoints, and
	// stays away from the Pods they select.
	Selectors []map[string]string

	// HeadersFrom are existing Secrets: each key is the name of a header, its value the header's value. EchoFrom is
	// an existing Secret with the text to echo in the key "echo". The kubelet passes them to the agent, which may
	// read no Secret.
	HeadersFrom []string
	EchoFrom    string

	// Probers are the nodes to measure from. Each has a Pod of its own. [NewKeys] makes the Keys of the run.
	Probers []string
	Keys    Keys
	// Unattended is a run with probers that somebody applies. There is no workstation to make the Keys and to delete
	// the probers at the end. The agent does both ([HandOutKeys], [DismissProbers]) and may change these two objects.
	// ProberLabels can replace Probers.
	Unattended   bool
	ProberLabels labels.Selector // selects the nodes to measure from; [labels.Everything] selects all

	// CanaryPods adds a Service of the run's own to measure ([CanaryName]), with so many Pods, and a headless one with
	// the same Pods ([TwinName]). 0 adds none.
	CanaryPods int

	// Namespaces are further ones with measured Services: the agent gets a Role in each. AllNamespaces gives it a
	// ClusterRole for all.
	Namespaces    []string
	AllNamespaces bool

	// EvictionRequests lets the agent read them, too. Only where the API server serves them may the role admin, and a
	// Role that grants more than its creator has is refused.
	EvictionRequests bool

	NodesAccess bool     // the agent also reads nodes, by a ClusterRole
	Unread      []string // resources that the agent may not read; it can do without them

	// NoStorageRequest leaves out the request for ephemeral storage, for nodes that do not
	// account for it. [Create] sets it if it may read nodes.
	NoStorageRequest bool
}

func (c Config) deadline() time.Duration { return cmp.Or(c.Deadline, 24*time.Hour) }

func (c Config) hasProbers() bool { return len(c.Probers) > 0 || c.ProberLabels != nil }

// severalNamespaces reports whether the agent reads more than its own namespace.
func (c Config) severalNamespaces() bool { return c.AllNamespaces || len(c.Namespaces) > 0 }

// outline returns a configuration of the same objects without their contents.
func (c Config) outline() Config {
	return Config{
		Name:          c.Name,
		Namespace:     c.Namespace,
		NodesAccess:   c.NodesAccess,
		Namespaces:    c.Namespaces,
		AllNamespaces: c.AllNamespaces,
		Probers:       c.Probers,
		ProberLabels:  c.ProberLabels,
		CanaryPods:    c.CanaryPods,
	}
}
