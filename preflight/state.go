package preflight

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lapse/correlate/quantity"
)

// A State is all that is known of a Service: plain values, as a cluster's API or manifests have them.
type State struct {
	Service      *corev1.Service
	Pods         []corev1.Pod // that the Service selects and that have not ended
	Endpoints    []Endpoint
	Deployments  []appsv1.Deployment // whose Pods the Service selects
	StatefulSets []appsv1.StatefulSet
	Budgets      []policyv1.PodDisruptionBudget // all of the namespace
	Nodes        []corev1.Node
	Proxy        Proxy

	Node           string        // that will be drained; "" if none was named
	RouteLag       Lag           // how long routes outlive a Pod
	LongestRequest time.Duration // 0: not known

	Missing map[Fact]string // what could not be read, and why
	Notes   []string        // for people: what was skipped, for example
}

// An Endpoint is one of a Service's, from its EndpointSlices.
type Endpoint struct {
	Pod   string // or its address, if no Pod stands behind it
	Node  string // "" if none is named
	Zone  string
	Ready bool
}

// A Fact is something that a State knows or not.
type Fact string

const (
	EndpointsFact Fact = "endpoints" // and on which nodes they are
	BudgetsFact   Fact = "PodDisruptionBudgets"
	NodesFact     Fact = "nodes"
	WorkloadsFact Fact = "Deployments and StatefulSets"
	PodsFact      Fact = "Pods"
	ProxyFact     Fact = "the configuration of kube-proxy"

	// TemplatesFact is met by Pods, and by Deployments and StatefulSets.
	TemplatesFact Fact = "Pods or their templates"
	// ReplicasFact is met by ready endpoints, and by what Deployments and StatefulSets ask for.
	ReplicasFact Fact = "how many endpoints there are"
)

// lacks says why a fact is missing; "" if it is known.
func (s *State) lacks(f Fact) string {
	switch f {
	case TemplatesFact:
		if len(s.templates()) > 0 {
			return ""
		}
		return cmp.Or(s.Missing[PodsFact], s.Missing[WorkloadsFact], "the Service selects no Pod, and no Deployment or StatefulSet that makes one")
	case ReplicasFact:
		if s.Missing[EndpointsFact] == "" || len(s.templates()) > 0 {
			return ""
		}
		return s.lacks(TemplatesFact)
	}
	return s.Missing[f]
}

func (s *State) lacksAny(facts []Fact) string {
	for _, f := range facts {
		if why := s.lacks(f); why != "" {
			return why
		}
	}
	return ""
}

func (s *State) knows(f Fact) bool { return s.lacks(f) == "" }

// PodsKnown reports whether anything is known of the Service's Pods. Without, next to nothing can be predicted.
func (s *State) PodsKnown() bool { return s.knows(TemplatesFact) }

func (s *State) name() string { return strings.TrimPrefix(s.Service.Namespace+"/"+s.Service.Name, "/") }

// A Lag is how long routes to a Pod outlive it: between the two.
type Lag struct {
	Least, Most time.Duration
	Assumed     bool // not measured in this cluster
}

// AssumedLag holds until somebody measures the cluster's own.
var AssumedLag = Lag{time.Second, 5 * time.Second, true}

func (l Lag) String() string {
	if l.Assumed {
		return fmt.Sprintf("%s to %s (an assumption: --route-lag sets what was measured)", quantity.Span(l.Least), quantity.Span(l.Most))
	}
	return fmt.Sprintf("up to %s (--route-lag)", quantity.Span(l.Most))
}

// A template is what Pods are made of: of those that run, one for each controller; of manifests, each workload's.
type template struct {
	object string // it was read from, such as Pod/web-7d4-x2kzq
	field  string // where its spec is: spec, or spec.template.spec
	meta   metav1.ObjectMeta
	spec   corev1.PodSpec
	count  int    // of Pods made of it, or asked for
	owner  string // the kind of the controller of its Pods; "" if they have none
}

// at is evidence from the template's spec.
func (t *template) at(field string, value any) Evidence {
	return Evidence{t.object, t.field + "." + field, fmt.Sprint(value)}
}

// of is evidence from one container's spec.
func (t *template) of(c *corev1.Container, field string, value any) Evidence {
	return t.at("containers["+c.Name+"]."+field, value)
}

// templates are those of the Pods that run, or if none does, of the workloads: what runs counts, also where something
// was injected. Manifests have workloads and Pods beside each other.
func (s *State) templates() (all []template) {
	byOwner := map[string]int{}
	for i := range s.Pods {
		p := &s.Pods[i]
		owner := p.Name
		if c := metav1.GetControllerOf(p); c != nil {
			owner = c.Kind + "/" + c.Name
		}
		if known, ok := byOwner[owner]; ok {
			all[known].count++
			continue
		}
		byOwner[owner] = len(all)
		all = append(all, template{"Pod/" + p.Name, "spec", p.ObjectMeta, p.Spec, 1, controllerOf(p)})
	}
	if s.Missing[EndpointsFact] == "" && len(s.Pods) > 0 {
		return all
	}
	for i := range s.Deployments {
		d := &s.Deployments[i]
		all = append(all, template{"Deployment/" + d.Name, "spec.template.spec", d.Spec.Template.ObjectMeta, d.Spec.Template.Spec, replicas(d.Spec.Replicas), "ReplicaSet"})
	}
	for i := range s.StatefulSets {
		d := &s.StatefulSets[i]
		all = append(all, template{"StatefulSet/" + d.Name, "spec.template.spec", d.Spec.Template.ObjectMeta, d.Spec.Template.Spec, replicas(d.Spec.Replicas), "StatefulSet"})
	}
	return all
}

// servers are the containers that the Service's ports lead to, each with its template.
func (s *State) servers() iter.Seq2[*template, *corev1.Container] {
	return func(yield func(*template, *corev1.Container) bool) {
		for _, t := range s.templates() {
			for _, c := range serving(s.Service, &t.spec) {
				if !yield(&t, c) {
					return
				}
			}
		}
	}
}

// replicas is what a workload asks for.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#replicas
func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// ready are the ready endpoints.
func (s *State) ready() []Endpoint {
	return slices.DeleteFunc(slices.Clone(s.Endpoints), func(e Endpoint) bool { return !e.Ready })
}

// count is how many endpoints the Service has or will have, and the evidence for it.
func (s *State) count() (int, []Evidence) {
	if s.Missing[EndpointsFact] == "" {
		return len(s.ready()), []Evidence{{"Service/" + s.Service.Name, "ready endpoints", fmt.Sprint(len(s.ready()))}}
	}
	n, evidence := 0, []Evidence(nil)
	for _, t := range s.templates() {
		n += t.count
		if !strings.HasPrefix(t.object, "Pod/") {
			evidence = append(evidence, Evidence{t.object, "spec.replicas", fmt.Sprint(t.count)})
		}
	}
	if evidence == nil {
		evidence = []Evidence{{"Service/" + s.Service.Name, "Pods selected", fmt.Sprint(n)}}
	}
	return n, evidence
}

// byNode are how many ready endpoints each node has.
func (s *State) byNode() map[string]int {
	n := map[string]int{}
	for _, e := range s.ready() {
		if e.Node != "" {
			n[e.Node]++
		}
	}
	return n
}

// placement says in words how many endpoints there are, and where.
func (s *State) placement() string {
	if s.Missing[EndpointsFact] != "" {
		n, _ := s.count()
		if n == 0 {
			return "no endpoints are known"
		}
		return fmt.Sprintf("%s asked for", quantity.Count(n, "endpoint"))
	}
	var where []string
	nodes := s.byNode()
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		where = append(where, fmt.Sprintf("%d on %s", nodes[node], node))
	}
	return strings.Join(slices.Concat([]string{quantity.Count(len(s.ready()), "ready endpoint")}, where), ", ")
}

// oneOf is the share of requests that one of n endpoints gets.
func oneOf(n int) string {
	if n <= 1 {
		return "all requests"
	}
	return fmt.Sprintf("1 in %d requests", n)
}

// budgetsOn are the budgets that cover Pods with these labels.
func (s *State) budgetsOn(set map[string]string) (on []*policyv1.PodDisruptionBudget) {
	for i := range s.Budgets {
		if covers(&s.Budgets[i], set) {
			on = append(on, &s.Budgets[i])
		}
	}
	return on
}

// covers reports whether a budget is about Pods with these labels. An empty selector is about all, none about no Pod.
// https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/pod-disruption-budget-v1/
func covers(b *policyv1.PodDisruptionBudget, set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(set))
}

// covered reports whether a budget is about any of the Service's Pods.
func (s *State) covered() bool {
	return slices.ContainsFunc(s.templates(), func(t template) bool { return len(s.budgetsOn(t.meta.Labels)) > 0 })
}

// selects reports whether a Service selects Pods with these labels.
func selects(s *corev1.Service, set map[string]string) bool {
	return len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(set))
}
