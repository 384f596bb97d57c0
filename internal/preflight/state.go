package preflight

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/correlate/quantity"
)

// A State is all that is known of a Service: plain values, as a cluster's API or manifests have them.
type State struct {
	Service     *corev1.Service
	Pods        []corev1.Pod // that the Service selects and that have not ended; of manifests, without those of Workloads
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
	Unrouted       string        // the kind of a workload that no Service selects: Service then stands in for one; "" if it is one

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

// A Refused object has an apiVersion that Kubernetes has removed.
type Refused struct{ Kind, Name, APIVersion, Since string }

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
		if len(s.selected()) > 0 {
			return ""
		}
		return cmp.Or(s.Missing[PodsFact], s.Missing[WorkloadsFact], s.selectsNothing())
	case ReplicasFact:
		if s.Missing[EndpointsFact] == "" {
			return ""
		}
		if why := s.lacks(TemplatesFact); why != "" {
			return why
		}
		if n, evidence := s.count(); !n.known() && n.least < 2 {
			return "how many Pods there will be is not known (" + evidence[0].String() + ")"
		}
		return ""
	}
	return s.Missing[f]
}

// selectsNothing says that no Pod is known which the Service selects, which labels are missing, and what was not read.
func (s *State) selectsNothing() string {
	text := "nothing that was read has the labels " + labelText(s.Service.Spec.Selector)
	for i := range s.Others {
		w := &s.Others[i]
		is := w.selected(s.Service)
		if is.beyond != "" {
			text += fmt.Sprintf("; %s makes no Pod with %s", w.object(), is.beyond)
		}
		if len(is.lacking) > 0 {
			text += fmt.Sprintf("; %s lacks %s, and who sets it on its Pods is not known", w.object(), strings.Join(is.lacking, ", "))
		}
	}
	if len(s.Unread) > 0 {
		text += "; not read: " + strings.Join(s.Unread, ", ")
	}
	return text
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

// at is evidence from the Service's spec, or of its endpoints.
func (s *State) at(field string, value any) Evidence {
	return fact("Service/"+s.Service.Name, field, value)
}

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
	object   string // it was read from, such as Pod/web-7d4-x2kzq
	field    string // where its spec is: spec, or spec.template.spec
	meta     metav1.ObjectMeta
	spec     corev1.PodSpec
	count    amount   // of Pods made of it
	evidence Evidence // for count
	owner    string   // the kind of the controller of its Pods; "" if they have none
	workload *Workload
}

// at is evidence from the template's spec.
func (t *template) at(field string, value any) Evidence {
	return Evidence{t.object, t.field + "." + field, fmt.Sprint(value)}
}

// of is evidence from one container's spec.
func (t *template) of(c *corev1.Container, field string, value any) Evidence {
	return t.at("containers["+c.Name+"]."+field, value)
}

// ends reports whether the Pods are made to come to an end: a Job's, or one that is not restarted, such as that of a
// chart's test.
func (t *template) ends() bool {
	return t.owner == "Job" || t.owner == "" && t.spec.RestartPolicy != "" && t.spec.RestartPolicy != corev1.RestartPolicyAlways
}

// selected returns the templates of the Pods that run, or if none does, of the workloads: what runs counts, also where
// something was injected. Manifests have workloads and Pods beside each other.
func (s *State) selected() (all []template) {
	made, runs := map[string]*Workload{}, map[string]bool{}
	for i := range s.Workloads {
		made[s.Workloads[i].object()] = &s.Workloads[i]
	}
	byOwner := map[string]int{}
	for i := range s.Pods {
		p := &s.Pods[i]
		owner := p.Name
		if c := metav1.GetControllerOf(p); c != nil {
			owner = c.Kind + "/" + c.Name
		}
		if known, ok := byOwner[owner]; ok {
			all[known].count = all[known].count.plus(exactly(1))
			continue
		}
		byOwner[owner] = len(all)
		t := template{object: "Pod/" + p.Name, field: "spec", meta: p.ObjectMeta, spec: p.Spec, count: exactly(1), owner: controllerOf(p)}
		if w := ownerIn(p, made); w != nil {
			if w.endsLike(&p.Spec) {
				t.object, t.field = w.object(), w.Field+".spec"
			}
			runs[w.object()] = true
		}
		all = append(all, t)
	}
	if s.Missing[EndpointsFact] == "" && len(s.Pods) > 0 {
		return all
	}
	return append(all, filter(s.ofWorkloads(), func(t template) bool { return !runs[t.object] })...)
}

func (s *State) ofWorkloads() (all []template) {
	for i := range s.Workloads {
		all = append(all, s.template(&s.Workloads[i]))
	}
	return all
}

// template returns that of a workload. The kind of its Pods' controller is its own, but for those that make others.
func (s *State) template(w *Workload) template {
	t := template{object: w.object(), field: w.Field + ".spec", meta: w.Template.ObjectMeta, spec: w.Template.Spec, owner: w.Kind, workload: w}
	t.count, t.evidence = s.asked(w)
	switch w.Kind {
	case "Deployment", "Rollout":
		t.owner = "ReplicaSet"
	case "CronJob":
		t.owner = "Job"
	}
	if label := w.selected(s.Service).one; label != "" {
		t.count, t.evidence = exactly(1), Evidence{"Service/" + s.Service.Name, "spec.selector[" + label + "]", s.Service.Spec.Selector[label] + ": one Pod of " + w.object()}
	}
	return t
}

// templates returns the selected templates whose Pods serve. The Service may select other Pods as well.
func (s *State) templates() []template {
	serve, _ := s.split()
	return serve
}

// split separates the selected templates as byPorts does.
func (s *State) split() (serve, foreign []template) {
	return byPorts(s.Service.Spec.Ports, s.selected())
}

// makers returns the templates of the workloads whose Pods serve.
func (s *State) makers() []template {
	serve, _ := byPorts(s.Service.Spec.Ports, s.ofWorkloads())
	return serve
}

// byPorts separates the templates of Pods that listen on a port from those of Pods that do not. Where no spec shows
// one of the ports, all but those of Jobs may listen there.
func byPorts(ports []corev1.ServicePort, all []template) (serve, foreign []template) {
	if len(ports) == 0 {
		return all, nil
	}
	for _, t := range all {
		if slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return t.listensOn(p) }) {
			serve = append(serve, t)
		} else {
			foreign = append(foreign, t)
		}
	}
	if len(serve) > 0 || !slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return targetOf(p).Type == intstr.Int }) {
		return serve, foreign
	}
	mine := func(t template) bool { return !t.ends() }
	if !slices.ContainsFunc(all, mine) {
		return all, nil
	}
	return filter(all, mine), filter(all, func(t template) bool { return !mine(t) })
}

func filter[T any](all []T, keep func(T) bool) (kept []T) {
	for _, e := range all {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// servers are the containers that the Service's ports lead to, each with its template.
func (s *State) servers() iter.Seq2[*template, *corev1.Container] {
	return func(yield func(*template, *corev1.Container) bool) {
		for _, t := range s.running() {
			for _, c := range serving(s.Service, &t.spec) {
				if !yield(&t, c) {
					return
				}
			}
		}
	}
}

// running returns the templates of which there are, or may be, Pods that serve.
func (s *State) running() []template {
	return filter(s.templates(), func(t template) bool { return t.count != exactly(0) })
}

// ready returns the ready endpoints, without those of Pods that do not serve.
func (s *State) ready() []Endpoint {
	_, foreign := s.split()
	return filter(s.Endpoints, func(e Endpoint) bool {
		return e.Ready && !slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool {
			return p.Name == e.Pod && slices.ContainsFunc(foreign, func(t template) bool { return t.makes(&p) })
		})
	})
}

// makes reports whether a Pod that runs is one of the template's.
func (t *template) makes(p *corev1.Pod) bool {
	a, b := metav1.GetControllerOf(p), metav1.GetControllerOf(&t.meta)
	if a == nil || b == nil {
		return a == b && t.object == "Pod/"+p.Name
	}
	return a.UID == b.UID && a.Kind == b.Kind && a.Name == b.Name
}

// count returns how many endpoints that serve the Service has or will have, and the evidence for it.
func (s *State) count() (n amount, evidence []Evidence) {
	if s.Missing[EndpointsFact] == "" {
		return exactly(len(s.ready())), []Evidence{{"Service/" + s.Service.Name, "ready endpoints", fmt.Sprint(len(s.ready()))}}
	}
	all, port := s.rarest(s.Service.Spec.Ports)
	for _, t := range all {
		if t.workload != nil {
			evidence = append(evidence, t.evidence)
		}
	}
	n = total(all)
	if evidence == nil {
		evidence = []Evidence{{"Service/" + s.Service.Name, "Pods selected", fmt.Sprint(n.least)}}
	}
	if port != nil {
		evidence = append(evidence, Evidence{"Service/" + s.Service.Name, fmt.Sprintf("spec.ports[%d].targetPort", port.Port), port.TargetPort.StrVal + ", which no other Pods have"})
	}
	return n, evidence
}

// rarest returns the templates whose Pods serve the one of the ports with the fewest: a port by name leads only to Pods
// that have it. The port is nil if all Pods serve all of them.
func (s *State) rarest(ports []corev1.ServicePort) (fewest []template, port *corev1.ServicePort) {
	fewest = s.templates()
	for _, p := range ports {
		if targetOf(p).Type == intstr.Int {
			continue
		}
		listen := filter(s.templates(), func(t template) bool { return t.listensOn(p) })
		if a, b := total(listen), total(fewest); len(listen) > 0 && a.known() && (!b.known() || a.least < b.least) {
			fewest, port = listen, &p
		}
	}
	return fewest, port
}

// beside is how many endpoints share the requests that a template's Pods get.
func (s *State) beside(t *template) amount {
	if s.Missing[EndpointsFact] == "" {
		n, _ := s.count()
		return n
	}
	all, _ := s.rarest(filter(s.Service.Spec.Ports, t.listensOn))
	return total(all)
}

// total is how many Pods are made of all templates.
func total(all []template) (n amount) {
	for _, t := range all {
		n = n.plus(t.count)
	}
	return n
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
		return s.replicas()
	}
	var where []string
	nodes := s.byNode()
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		where = append(where, fmt.Sprintf("%d on %s", nodes[node], node))
	}
	return strings.Join(slices.Concat([]string{quantity.Count(len(s.ready()), "ready endpoint")}, where), ", ")
}

// replicas says in words how many Pods there will be, by manifests.
func (s *State) replicas() string {
	n := total(s.templates())
	what := "replica"
	if len(s.Pods) > 0 {
		what = "Pod"
	}
	switch {
	case len(s.selected()) == 0:
		return "no Pods are known"
	case len(s.templates()) == 0:
		return "no Pod that serves"
	case !slices.ContainsFunc(s.templates(), func(t template) bool { return t.owner != "DaemonSet" }):
		return "a Pod on each node that the DaemonSet selects"
	case !n.known() && n.least == 0:
		return "an unknown number of " + what + "s"
	case !n.known():
		return "at least " + quantity.Count(n.least, what)
	case n.most > n.least:
		return fmt.Sprintf("%d to %s", n.least, quantity.Count(n.most, what))
	}
	if all, port := s.rarest(s.Service.Spec.Ports); port != nil {
		return fmt.Sprintf("%s, %d of them with port %d", quantity.Count(n.least, what), total(all).least, port.Port)
	}
	return quantity.Count(n.least, what)
}

// oneOf is the share of requests that one of the endpoints gets. An autoscaler may run more than so many.
func oneOf(n amount) string {
	switch {
	case !n.known():
		return "some requests"
	case n.least <= 1:
		return "all requests"
	}
	return fmt.Sprintf("1 in %d requests", n.least)
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
	return slices.ContainsFunc(s.running(), func(t template) bool { return len(s.budgetsOn(t.meta.Labels)) > 0 })
}

// selects reports whether a Service selects Pods with these labels.
func selects(s *corev1.Service, set map[string]string) bool {
	return len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(set))
}

// routing returns a Service without what does not count: one of type ExternalName has no endpoints.
func routing(svc *corev1.Service) *corev1.Service {
	if svc.Spec.Type == corev1.ServiceTypeExternalName && len(svc.Spec.Selector) > 0 {
		svc = svc.DeepCopy()
		svc.Spec.Selector = nil
	}
	return svc
}
