package preflight

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/hint"
)

// FromManifests reads a Service and what is behind it from files, as [ReadManifests] does. The error says all that
// cannot be read.
func FromManifests(paths []string, in io.Reader, namespace, service string) (*State, error) {
	m := ReadManifests(paths, in, Strict)
	if err := m.Err(); err != nil {
		return nil, err
	}
	s, err := m.State(namespace, service)
	if err == nil {
		s.Notes = append(s.Notes, m.Notes()...)
	}
	return s, err
}

// manifests are the objects of the kinds that count.
type manifests struct {
	services     []corev1.Service
	deployments  []appsv1.Deployment
	statefulSets []appsv1.StatefulSet
	pods         []corev1.Pod
	budgets      []policyv1.PodDisruptionBudget
	skipped      map[string]int // documents of other kinds
}

// add keeps an object of a kind that counts.
func (m *manifests) add(raw json.RawMessage) []error {
	var is metav1.TypeMeta
	if err := json.Unmarshal(raw, &is); err != nil {
		return []error{wrongType(err)}
	}
	switch is.APIVersion + " " + is.Kind {
	case "v1 Service":
		return keep(raw, &m.services)
	case "apps/v1 Deployment":
		return keep(raw, &m.deployments)
	case "apps/v1 StatefulSet":
		return keep(raw, &m.statefulSets)
	case "v1 Pod":
		return keep(raw, &m.pods)
	case "policy/v1 PodDisruptionBudget":
		return keep(raw, &m.budgets)
	}
	m.skipped[strings.TrimSpace(is.APIVersion+" "+is.Kind)]++
	return nil
}

func keep[T any](raw json.RawMessage, in *[]T) []error {
	var object T
	errs, ok := decodeStrict(raw, &object, false)
	if ok {
		*in = append(*in, object)
	}
	return errs
}

// State is what the manifests have of a Service. Placement they have not. Of objects in several namespaces, those of
// the one given are meant, and those that name none.
func (m *manifests) State(namespace, service string) (*State, error) {
	svc, err := m.service(namespace, service)
	if err != nil {
		return nil, err
	}
	here := func(o metav1.Object) bool {
		return o.GetNamespace() == "" || svc.Namespace == "" || o.GetNamespace() == svc.Namespace
	}
	const nowhere = "manifests do not say where Pods run"
	s := &State{Service: svc, RouteLag: AssumedLag, Missing: map[Fact]string{EndpointsFact: nowhere, NodesFact: "manifests have no nodes", ProxyFact: "manifests do not have the configuration of kube-proxy"}}
	var other []map[string]string // labels of Pods of other Services
	sort := func(o metav1.Object, set map[string]string) bool {
		ours := here(o) && selects(svc, set)
		if here(o) && !ours {
			other = append(other, set)
		}
		return ours
	}
	for _, d := range m.deployments {
		if sort(&d, d.Spec.Template.Labels) {
			s.Deployments = append(s.Deployments, d)
		}
	}
	for _, d := range m.statefulSets {
		if sort(&d, d.Spec.Template.Labels) {
			s.StatefulSets = append(s.StatefulSets, d)
		}
	}
	for _, p := range m.pods {
		if sort(&p, p.Labels) {
			s.Pods = append(s.Pods, p)
		}
	}
	for _, b := range m.budgets {
		if here(&b) && (s.coveredBy(&b) > 0 || !slices.ContainsFunc(other, func(set map[string]string) bool { return covers(&b, set) })) {
			s.Budgets = append(s.Budgets, b)
		}
	}
	if len(svc.Spec.Selector) == 0 {
		s.Missing[PodsFact] = "the Service has no selector: which Pods are behind it is not known"
		s.Missing[WorkloadsFact] = s.Missing[PodsFact]
	}
	return s, nil
}

// service finds the Service that is meant.
func (m *manifests) service(namespace, name string) (*corev1.Service, error) {
	var found []*corev1.Service
	var names []string
	for i := range m.services {
		s := &m.services[i]
		names = append(names, "svc/"+s.Name)
		if s.Name == name && (namespace == "" || s.Namespace == "" || s.Namespace == namespace) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, hint.Errorf("name its namespace with -n, or read each file once", "the manifests have %d Services %q", len(found), name)
	case len(names) == 0:
		return nil, hint.Errorf("add the file that has it with another -f", "the manifests have no Service")
	}
	slices.Sort(names)
	return nil, hint.Errorf("they have "+strings.Join(slices.Compact(names), ", "), "the manifests have no Service %q", name)
}
