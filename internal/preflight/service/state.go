// Package service holds what is known of a Service: its spec, its Pods or what makes them, and where they are. Packages
// cluster and manifest read it, and the rules ask it. Its questions have answers from either source: how many
// endpoints there are, which containers serve, which budgets cover them.
package service

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A State is all that is known of a Service: plain values, as a cluster's API or manifests have them.
type State struct {
	Service     *corev1.Service
	Pods        []corev1.Pod // selected by the Service, and not ended. From manifests: without Pods of Workloads
	Endpoints   []Endpoint
	Workloads   []Workload                     // whose Pods the Service selects
	Others      []Workload                     // all others of the namespace
	Autoscalers []Autoscaler                   // all of the namespace; only manifests are read for them
	Budgets     []policyv1.PodDisruptionBudget // all of the namespace
	Nodes       []corev1.Node
	Proxy       Proxy
	Refused     []Refused // objects of manifests that today's API servers refuse
	Unread      []string  // objects that may make Pods, and were not read: "1 k8s.example.com/v1 Shop"

	Node           string        // that will be drained; "" if none was named
	RouteLag       Lag           // how long routes outlive a Pod
	LongestRequest time.Duration // 0: not known

	// Unrouted is the kind of a workload that no Service selects: Service then stands in for one. It is "" if Service
	// is one.
	Unrouted string

	Missing map[Fact]string // what could not be read, and why
	Notes   []string        // for people: what was skipped, for example
}

// An Endpoint is an address behind a Service, from its EndpointSlices.
type Endpoint struct {
	Pod   string // or the address, if no Pod has it
	Node  string // "" if none is named
	Zone  string
	Ready bool
}

// A Proxy is how kube-proxy is configured.
type Proxy struct {
	ConfigMap     string        // which says so: kube-proxy, or kube-proxy-config on EKS
	Mode          string        // iptables, nftables or ipvs
	MinSyncPeriod time.Duration // of that mode; 0: none
}

// A Refused object has an apiVersion that Kubernetes has removed.
type Refused struct{ Kind, Name, APIVersion, Since string }

// A Fact is something that a State may know.
type Fact string

const (
	EndpointsFact Fact = "endpoints" // and on which nodes they are
	BudgetsFact   Fact = "PodDisruptionBudgets"
	NodesFact     Fact = "nodes"
	WorkloadsFact Fact = "Deployments and StatefulSets"
	PodsFact      Fact = "Pods"
	ProxyFact     Fact = "the configuration of kube-proxy"

	// TemplatesFact is known if there are Pods, or objects that make Pods.
	TemplatesFact Fact = "Pods or their templates"
	// ReplicasFact is known from ready endpoints, or from the replicas that objects ask for.
	ReplicasFact Fact = "how many endpoints there are"
)

// Name returns NAMESPACE/NAME, without the namespace where it is not known.
func (s *State) Name() string { return strings.TrimPrefix(s.Service.Namespace+"/"+s.Service.Name, "/") }

// At returns evidence from the Service's spec, or about its endpoints.
func (s *State) At(field string, value any) Evidence {
	return Evidence{"Service/" + s.Service.Name, field, fmt.Sprint(value)}
}

// Selects reports whether a Service selects Pods with these labels.
func Selects(s *corev1.Service, set map[string]string) bool {
	return len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(set))
}

// Routing returns a Service without its selector if that has no effect: type ExternalName has no endpoints.
func Routing(svc *corev1.Service) *corev1.Service {
	if svc.Spec.Type == corev1.ServiceTypeExternalName && len(svc.Spec.Selector) > 0 {
		svc = svc.DeepCopy()
		svc.Spec.Selector = nil
	}
	return svc
}

// Ended reports whether a Pod has ended, or is being deleted.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil
}
