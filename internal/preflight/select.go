package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// of returns what the manifests have of a Service. They do not say where Pods run.
func (m *manifests) of(svc *corev1.Service) *State {
	svc = routing(svc)
	s := &State{Service: svc, RouteLag: AssumedLag, Missing: map[Fact]string{
		EndpointsFact: "manifests do not say where Pods run",
		NodesFact:     "manifests have no nodes",
		ProxyFact:     "manifests do not have the configuration of kube-proxy",
	}}
	for _, kind := range sortedKeys(m.skipped) {
		if mayMakePods(kind) {
			s.Unread = append(s.Unread, fmt.Sprintf("%d %s", m.skipped[kind], kind))
		}
	}
	found := m.inNamespace(svc.Namespace)
	made := map[string]*Workload{}
	for i, o := range found {
		if o.GetName() == "" { // made with generateName: each is another
			o.SetName(fmt.Sprintf("%s%d", o.GetGenerateName(), i))
		}
		if w := workloadOf(o.kind.name, o.Object); w != nil {
			made[w.object()] = w
		}
	}
	for _, o := range found {
		switch is := o.Object.(type) {
		case *policyv1.PodDisruptionBudget:
			if o.kind.refused != "" && is.Spec.Selector != nil && metav1.FormatLabelSelector(is.Spec.Selector) == "" {
				is.Spec.Selector = nil // in policy/v1beta1 an empty one was about no Pod
			}
			s.Budgets = append(s.Budgets, *is)
		case *corev1.Pod:
			s.addPod(is, made)
		}
		if a := autoscalerOf(o.Object); a != nil {
			s.Autoscalers = append(s.Autoscalers, *a)
		}
		if w := made[o.kind.name+"/"+o.GetName()]; w != nil {
			if owner := ownerIn(o, made); owner == nil || owner == w {
				s.addWorkload(w, made)
			}
		}
		if o.kind.refused != "" {
			s.Refused = append(s.Refused, Refused{o.kind.name, o.GetName(), o.kind.apiVersion, o.kind.refused})
		}
	}
	s.Notes = resets(s)
	if len(svc.Spec.Selector) == 0 {
		s.Missing[PodsFact] = "the Service has no selector: which Pods are behind it is not known"
		s.Missing[WorkloadsFact] = s.Missing[PodsFact]
	}
	return s
}

// inNamespace returns the objects of a namespace and those that name none, each object once: as with kubectl apply,
// the last of several documents counts.
func (m *manifests) inNamespace(namespace string) (all []object) {
	at := map[string][]int{}
	for _, o := range m.objects {
		if !sameNamespace(o.GetNamespace(), namespace) {
			continue
		}
		key := o.kind.name + "/" + o.GetName()
		known := slices.IndexFunc(at[key], func(i int) bool { return sameNamespace(all[i].GetNamespace(), o.GetNamespace()) })
		if known >= 0 && o.GetName() != "" { // without a name it is made with generateName: each is another
			all[at[key][known]] = o
			continue
		}
		at[key] = append(at[key], len(all))
		all = append(all, o)
	}
	return all
}

// addPod keeps a Pod that the Service selects, unless its workload is known and selected as well.
func (s *State) addPod(p *corev1.Pod, made map[string]*Workload) {
	if ended(p) || !selects(s.Service, p.Labels) {
		return
	}
	if w := ownerIn(p, made); w != nil && w.selected(s.Service).any() {
		return
	}
	s.Pods = append(s.Pods, *p)
}

// addWorkload keeps a workload. An Argo Rollout may have its template from a Deployment, which then makes no Pods.
func (s *State) addWorkload(w *Workload, made map[string]*Workload) {
	for _, o := range made {
		if o.like != nil && o.like.Kind == w.Kind && o.like.Name == w.Meta.Name {
			return
		}
	}
	if w.like != nil {
		from := made[w.like.Kind+"/"+w.like.Name]
		if from == nil {
			s.Unread = append(s.Unread, fmt.Sprintf("%s %s, of which %s has its template", w.like.Kind, w.like.Name, w.object()))
			return
		}
		w.Template = from.Template
	}
	if w.selected(s.Service).any() {
		s.Workloads = append(s.Workloads, *w)
	} else {
		s.Others = append(s.Others, *w)
	}
}

// ownerIn returns the known workload that controls an object. A ReplicaSet that is not known has the name of its
// Deployment and a hash.
func ownerIn(o metav1.Object, made map[string]*Workload) *Workload {
	c := metav1.GetControllerOf(o)
	if c == nil {
		return nil
	}
	if w := made[c.Kind+"/"+c.Name]; w != nil {
		if of := metav1.GetControllerOf(&w.Meta); of != nil && of.Kind != w.Kind { // a ReplicaSet or a Job may have one
			return cmp.Or(made[of.Kind+"/"+of.Name], w)
		}
		return w
	}
	name, _, ok := cutLast(c.Name, "-")
	if !ok || c.Kind != "ReplicaSet" {
		return nil
	}
	return cmp.Or(made["Deployment/"+name], made["Rollout/"+name])
}

// resets notes where an apply takes back what an autoscaler has done, within its range.
func resets(s *State) (notes []string) {
	const takesBack = "each apply scales %s to %d, also where %s has made more (up to %d): " +
		"leave replicas out of the manifest"
	for i := range s.Workloads {
		w := &s.Workloads[i]
		a := s.scaler(w)
		if a == nil || w.Replicas == nil || *w.Replicas == 0 {
			continue
		}
		if n := int(*w.Replicas); n >= a.least() && n < a.Max {
			notes = append(notes, fmt.Sprintf(takesBack, w.object(), n, a.object(), a.Max))
		}
	}
	return notes
}

// mayMakePods reports whether objects of a kind that is not read may make Pods: those of Kubernetes do not, nor do
// those of well-known additions.
func mayMakePods(apiVersionKind string) bool {
	apiVersion, kind, _ := strings.Cut(apiVersionKind, " ")
	group, _, _ := strings.Cut(apiVersion, "/")
	if !strings.Contains(group, ".") || strings.HasSuffix(group, "k8s.io") || kind == "Application" || kind == "ApplicationSet" {
		return false
	}
	return !slices.ContainsFunc([]string{
		"cert-manager.io", "istio.io", "traefik.io", "traefik.containo.us", "cilium.io", "external-secrets.io", "bitnami.com",
		"kyverno.io", "gatekeeper.sh", "getambassador.io", "projectcontour.io", "linkerd.io", "karpenter.sh", "keda.sh",
	}, func(known string) bool { return group == known || strings.HasSuffix(group, "."+known) }) && !strings.HasSuffix(kind, "Monitor") && !strings.HasSuffix(kind, "Rule")
}
