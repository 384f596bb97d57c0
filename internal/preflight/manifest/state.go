package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/hint"
	"lapse/internal/preflight/service"
)

// States returns what the manifests have of each target, each Service once. Without a target it returns all Services,
// of a namespace if one is given.
func (m *Manifests) States(namespace string, targets []service.Target) (states []*service.State, err error) {
	services := slices.DeleteFunc(m.services(), func(s *corev1.Service) bool {
		return !sameNamespace(s.Namespace, namespace)
	})
	if len(targets) == 0 {
		if len(services) == 0 {
			return nil, m.noService(namespace)
		}
		for _, s := range services {
			states = append(states, m.of(s))
		}
		return states, nil
	}
	known := map[*corev1.Service]bool{}
	add := func(s *corev1.Service) {
		if !known[s] {
			known[s] = true
			states = append(states, m.of(s))
		}
	}
	for _, t := range targets {
		if t.Kind == "service" {
			s, err := m.service(namespace, t.Name)
			if err != nil {
				return nil, err
			}
			i := slices.IndexFunc(services, func(o *corev1.Service) bool {
				return o.Name == s.Name && o.Namespace == s.Namespace
			})
			if i >= 0 {
				s = services[i]
			}
			add(s)
			continue
		}
		w, err := m.workload(namespace, t)
		if err != nil {
			return nil, err
		}
		routed := false
		for _, s := range services {
			if sameNamespace(s.Namespace, w.Meta.Namespace) && w.Selected(s).Any() {
				routed = true
				add(s)
			}
		}
		if !routed {
			s := m.of(service.StandIn(w))
			s.SetUnrouted(w)
			states = append(states, s)
		}
	}
	return states, nil
}

// noService says why nothing can be judged, and what to try.
func (m *Manifests) noService(namespace string) error {
	where := ""
	if namespace != "" {
		where = fmt.Sprintf(" in namespace %q", namespace)
	}
	advice := addFile + ", or name a workload: deploy/NAME"
	switch {
	case len(m.rendered) > 0:
		advice = "render first: " + some(m.rendered, 3)
	case len(m.services()) > 0:
		advice = "they have " + some(m.serviceNames(), 12)
	}
	return hint.Errorf(advice, "the manifests have no Service%s", where)
}

// of returns what the manifests have of a Service. They do not say where Pods run.
func (m *Manifests) of(svc *corev1.Service) *service.State {
	svc = service.Routing(svc)
	s := &service.State{Service: svc, RouteLag: service.AssumedLag, Missing: map[service.Fact]string{
		service.EndpointsFact: "manifests do not say where Pods run",
		service.NodesFact:     "manifests have no nodes",
		service.ProxyFact:     "manifests do not have the configuration of kube-proxy",
	}}
	for _, kind := range slices.Sorted(maps.Keys(m.skipped)) {
		if mayMakePods(kind) {
			s.Unread = append(s.Unread, fmt.Sprintf("%d %s", m.skipped[kind], kind))
		}
	}
	found := m.inNamespace(svc.Namespace)
	made := map[string]*service.Workload{}
	for i, o := range found {
		if o.GetName() == "" { // made with generateName: each is another
			o.SetName(fmt.Sprintf("%s%d", o.GetGenerateName(), i))
		}
		if w := workloadOf(o.kind.name, o.Object); w != nil {
			made[w.Object()] = w
		}
	}
	for _, o := range found {
		addObject(s, o, made)
	}
	s.Notes = resets(s)
	if len(svc.Spec.Selector) == 0 {
		s.Missing[service.PodsFact] = "the Service has no selector: which Pods are behind it is not known"
		s.Missing[service.WorkloadsFact] = s.Missing[service.PodsFact]
	}
	return s
}

// addObject adds to a State what an object says of the Service.
func addObject(s *service.State, o object, made map[string]*service.Workload) {
	switch is := o.Object.(type) {
	case *policyv1.PodDisruptionBudget:
		if o.kind.refused != "" && is.Spec.Selector != nil && metav1.FormatLabelSelector(is.Spec.Selector) == "" {
			is.Spec.Selector = nil // in policy/v1beta1 an empty one was about no Pod
		}
		s.Budgets = append(s.Budgets, *is)
	case *corev1.Pod:
		addPod(s, is, made)
	}
	if a := autoscalerOf(o.Object); a != nil {
		s.Autoscalers = append(s.Autoscalers, *a)
	}
	if w := made[o.kind.name+"/"+o.GetName()]; w != nil {
		if owner := service.OwnerIn(o, made); owner == nil || owner == w {
			addWorkload(s, w, made)
		}
	}
	if o.kind.refused != "" {
		refused := service.Refused{
			Kind:       o.kind.name,
			Name:       o.GetName(),
			APIVersion: o.kind.apiVersion,
			Since:      o.kind.refused,
		}
		s.Refused = append(s.Refused, refused)
	}
}

// addPod keeps a Pod that the Service selects, unless its workload is known and selected as well.
func addPod(s *service.State, p *corev1.Pod, made map[string]*service.Workload) {
	if service.Ended(p) || !service.Selects(s.Service, p.Labels) {
		return
	}
	if w := service.OwnerIn(p, made); w != nil && w.Selected(s.Service).Any() {
		return
	}
	s.Pods = append(s.Pods, *p)
}

// addWorkload keeps a workload. An Argo Rollout may have its template from a Deployment, which then makes no Pods.
func addWorkload(s *service.State, w *service.Workload, made map[string]*service.Workload) {
	for _, o := range made {
		if o.Like != nil && o.Like.Kind == w.Kind && o.Like.Name == w.Meta.Name {
			return
		}
	}
	if w.Like != nil {
		from := made[w.Like.Kind+"/"+w.Like.Name]
		if from == nil {
			unread := fmt.Sprintf("%s %s, of which %s has its template", w.Like.Kind, w.Like.Name, w.Object())
			s.Unread = append(s.Unread, unread)
			return
		}
		w.Template = from.Template
	}
	if w.Selected(s.Service).Any() {
		s.Workloads = append(s.Workloads, *w)
	} else {
		s.Others = append(s.Others, *w)
	}
}

// resets returns a note for each workload that an apply would scale back, within the range of its autoscaler.
func resets(s *service.State) (notes []string) {
	const takesBack = "each apply scales %s to %d, also where %s has made more (up to %d): " +
		"leave replicas out of the manifest"
	for i := range s.Workloads {
		w := &s.Workloads[i]
		a := s.Scaler(w)
		if a == nil || w.Replicas == nil || *w.Replicas == 0 {
			continue
		}
		if n := int(*w.Replicas); n >= a.Least() && n < a.Max {
			notes = append(notes, fmt.Sprintf(takesBack, w.Object(), n, a.Object(), a.Max))
		}
	}
	return notes
}

// noPods are API groups of well-known additions whose objects make no Pods.
var noPods = []string{
	"cert-manager.io", "istio.io", "traefik.io", "traefik.containo.us", "cilium.io", "external-secrets.io",
	"bitnami.com", "kyverno.io", "gatekeeper.sh", "getambassador.io", "projectcontour.io", "linkerd.io",
	"karpenter.sh", "keda.sh", "csi.x-k8s.io",
}

// mayMakePods reports whether objects of a kind that is not read may make Pods. Kubernetes' own do not, but those of
// its working groups (x-k8s.io) may, such as a LeaderWorkerSet.
func mayMakePods(apiVersionKind string) bool {
	apiVersion, kind, _ := strings.Cut(apiVersionKind, " ")
	group, _, _ := strings.Cut(apiVersion, "/")
	isGroup := func(known string) bool { return group == known || strings.HasSuffix(group, "."+known) }
	switch {
	case !strings.Contains(group, "."), strings.HasSuffix(group, ".k8s.io"):
		return false
	case kind == "Application", kind == "ApplicationSet":
		return false
	case strings.HasSuffix(kind, "Monitor"), strings.HasSuffix(kind, "Rule"):
		return false
	}
	return !slices.ContainsFunc(noPods, isGroup)
}
