// Package service holds what is known of a Service: its spec, its Pods or what makes them, and where they are. Packages
// cluster and manifest read it, and the rules ask it. Its questions have answers from either source: how many
// endpoints there are, which containers serve, which budgets cover them.
package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lapse/internal/hint"
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
	Mode          string        // iptables, nftables or ipvs
	MinSyncPeriod time.Duration // of that mode; 0: the default
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

// Lacks returns why a fact is missing, "" if it is known.
func (s *State) Lacks(f Fact) string {
	switch f {
	case TemplatesFact:
		if len(s.Selected()) > 0 {
			return ""
		}
		return cmp.Or(s.Missing[PodsFact], s.Missing[WorkloadsFact], s.selectsNothing())
	case ReplicasFact:
		if s.Missing[EndpointsFact] == "" {
			return ""
		}
		if why := s.Lacks(TemplatesFact); why != "" {
			return why
		}
		if n, evidence := s.Count(); !n.Known() && n.Least < 2 {
			return "how many Pods there will be is not known (" + evidence[0].String() + ")"
		}
		return ""
	}
	return s.Missing[f]
}

// selectsNothing explains that the Service selects no known Pod: which labels are missing, and what was not read.
func (s *State) selectsNothing() string {
	text := "nothing that was read has the labels " + LabelText(s.Service.Spec.Selector)
	for i := range s.Others {
		w := &s.Others[i]
		is := w.Selected(s.Service)
		if is.beyond != "" {
			text += fmt.Sprintf("; %s makes no Pod with %s", w.Object(), is.beyond)
		}
		if len(is.lacking) > 0 {
			lacking := strings.Join(is.lacking, ", ")
			text += fmt.Sprintf("; %s lacks %s, and who sets it on its Pods is not known", w.Object(), lacking)
		}
	}
	if len(s.Unread) > 0 {
		text += "; not read: " + strings.Join(s.Unread, ", ")
	}
	return text
}

// LacksAny returns why the first missing fact of several is missing, "" if all are known.
func (s *State) LacksAny(facts []Fact) string {
	for _, f := range facts {
		if why := s.Lacks(f); why != "" {
			return why
		}
	}
	return ""
}

// Knows reports whether a fact is known.
func (s *State) Knows(f Fact) bool { return s.Lacks(f) == "" }

// Name returns NAMESPACE/NAME, without the namespace where it is not known.
func (s *State) Name() string { return strings.TrimPrefix(s.Service.Namespace+"/"+s.Service.Name, "/") }

// At returns evidence from the Service's spec, or about its endpoints.
func (s *State) At(field string, value any) Evidence {
	return Evidence{"Service/" + s.Service.Name, field, fmt.Sprint(value)}
}

// CheckNode returns an error if the node to drain is surely not in the cluster. It adds a note if the Service has no
// endpoint there.
func (s *State) CheckNode() error {
	if s.Node == "" {
		return nil
	}
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	if s.Knows(NodesFact) && !slices.Contains(names, s.Node) {
		return hint.Errorf("it has "+strings.Join(names, ", "), "the cluster has no node %q", s.Node)
	}
	if s.Knows(EndpointsFact) && s.ByNode()[s.Node] == 0 {
		note := fmt.Sprintf("no ready endpoint is on %s: a drain of it would not test the Service", s.Node)
		s.Notes = append(s.Notes, note)
	}
	return nil
}

// BudgetsOn returns the budgets that cover Pods with these labels.
func (s *State) BudgetsOn(set map[string]string) (on []*policyv1.PodDisruptionBudget) {
	for i := range s.Budgets {
		if Covers(&s.Budgets[i], set) {
			on = append(on, &s.Budgets[i])
		}
	}
	return on
}

// Covers reports whether a budget is about Pods with these labels: with an empty selector always, without one never.
// https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/pod-disruption-budget-v1/
func Covers(b *policyv1.PodDisruptionBudget, set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(set))
}

// Covered reports whether a budget is about any of the Service's Pods.
func (s *State) Covered() bool {
	return slices.ContainsFunc(s.Running(), func(t Template) bool { return len(s.BudgetsOn(t.Meta.Labels)) > 0 })
}

// Scaler returns the autoscaler of a workload, nil if none is known.
func (s *State) Scaler(w *Workload) *Autoscaler {
	i := slices.IndexFunc(s.Autoscalers, func(a Autoscaler) bool {
		return a.Target.Kind == w.Kind && a.Target.Name == w.Meta.Name
	})
	if i < 0 {
		return nil
	}
	return &s.Autoscalers[i]
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
