package service

import (
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/internal/kube/podspec"
)

// A Template is a spec that Pods are made of. Pods that run have one for each controller, and so has each workload.
type Template struct {
	Object   string // that it was read from, such as Pod/web-7d4-x2kzq
	Field    string // where its spec is: spec, or spec.template.spec
	Meta     metav1.ObjectMeta
	Spec     corev1.PodSpec
	Count    Amount    // of Pods made of it
	Evidence Evidence  // for Count
	Owner    string    // the kind of the controller of its Pods; "" if they have none
	Workload *Workload // nil if it was read from a Pod
}

// At returns evidence from the template's spec.
func (t *Template) At(field string, value any) Evidence {
	return Evidence{t.Object, t.Field + "." + field, fmt.Sprint(value)}
}

// Of returns evidence from one container's spec.
func (t *Template) Of(c *corev1.Container, field string, value any) Evidence {
	return t.At("containers["+c.Name+"]."+field, value)
}

// Ends reports whether the Pods are meant to end: Pods of a Job, or a Pod that is not restarted, such as the test of a
// chart.
func (t *Template) Ends() bool {
	policy := t.Spec.RestartPolicy
	return t.Owner == "Job" || t.Owner == "" && policy != "" && policy != corev1.RestartPolicyAlways
}

// ListensOn reports whether the spec shows that a container listens where a Service's port leads to.
func (t *Template) ListensOn(p corev1.ServicePort) bool {
	return len(podspec.Listeners(&t.Spec, p)) > 0
}

// makes reports whether a Pod that runs was made of the template.
func (t *Template) makes(p *corev1.Pod) bool {
	a, b := metav1.GetControllerOf(p), metav1.GetControllerOf(&t.Meta)
	if a == nil || b == nil {
		return a == b && t.Object == "Pod/"+p.Name
	}
	return a.UID == b.UID && a.Kind == b.Kind && a.Name == b.Name
}

// Selected returns the templates of the Pods that run, with what was injected into them; if no Pod runs, of the
// workloads. From manifests it returns both.
func (s *State) Selected() (all []Template) {
	made, runs := map[string]*Workload{}, map[string]bool{}
	for i := range s.Workloads {
		made[s.Workloads[i].Object()] = &s.Workloads[i]
	}
	byOwner := map[string]int{}
	for i := range s.Pods {
		p := &s.Pods[i]
		owner := p.Name
		if c := metav1.GetControllerOf(p); c != nil {
			owner = c.Kind + "/" + c.Name
		}
		if known, ok := byOwner[owner]; ok {
			all[known].Count = all[known].Count.Plus(Exactly(1))
			continue
		}
		byOwner[owner] = len(all)
		t := ofPod(p)
		if w := OwnerIn(p, made); w != nil {
			if w.endsLike(&p.Spec) {
				t.Object, t.Field = w.Object(), w.Field+".spec"
			}
			runs[w.Object()] = true
		}
		all = append(all, t)
	}
	if s.Missing[EndpointsFact] == "" && len(s.Pods) > 0 {
		return all
	}
	return append(all, filter(s.ofWorkloads(), func(t Template) bool { return !runs[t.Object] })...)
}

func ofPod(p *corev1.Pod) Template {
	return Template{
		Object: "Pod/" + p.Name,
		Field:  "spec",
		Meta:   p.ObjectMeta,
		Spec:   p.Spec,
		Count:  Exactly(1),
		Owner:  ControllerOf(p),
	}
}

// ControllerOf returns the kind of a Pod's controller, "" if it has none.
func ControllerOf(p *corev1.Pod) string {
	if c := metav1.GetControllerOf(p); c != nil {
		return c.Kind
	}
	return ""
}

func (s *State) ofWorkloads() (all []Template) {
	for i := range s.Workloads {
		all = append(all, s.TemplateOf(&s.Workloads[i]))
	}
	return all
}

// TemplateOf returns a workload's template. Its Owner is the workload, or the object in between: a Deployment makes a
// ReplicaSet, which makes the Pods.
func (s *State) TemplateOf(w *Workload) Template {
	t := Template{
		Object:   w.Object(),
		Field:    w.Field + ".spec",
		Meta:     w.Template.ObjectMeta,
		Spec:     w.Template.Spec,
		Owner:    w.Kind,
		Workload: w,
	}
	t.Count, t.Evidence = w.asked(s.Scaler(w))
	switch w.Kind {
	case "Deployment", "Rollout":
		t.Owner = "ReplicaSet"
	case "CronJob":
		t.Owner = "Job"
	}
	if label := w.Selected(s.Service).One; label != "" {
		t.Count = Exactly(1)
		t.Evidence = s.At("spec.selector["+label+"]", s.Service.Spec.Selector[label]+": one Pod of "+w.Object())
	}
	return t
}

// Templates returns the selected templates whose Pods serve. The Service may select other Pods as well.
func (s *State) Templates() []Template {
	serve, _ := byPorts(s.Service.Spec.Ports, s.Selected())
	return serve
}

// Makers returns the templates of the workloads whose Pods serve.
func (s *State) Makers() []Template {
	serve, _ := byPorts(s.Service.Spec.Ports, s.ofWorkloads())
	return serve
}

// Running returns the templates that have, or may have, Pods that serve.
func (s *State) Running() []Template {
	return filter(s.Templates(), func(t Template) bool { return t.Count != Exactly(0) })
}

// Servers yields the containers that the Service's ports lead to, each with its template.
func (s *State) Servers() iter.Seq2[*Template, *corev1.Container] {
	return func(yield func(*Template, *corev1.Container) bool) {
		for _, t := range s.Running() {
			for _, c := range podspec.Serving(s.Service, &t.Spec) {
				if !yield(&t, c) {
					return
				}
			}
		}
	}
}

// byPorts separates templates whose Pods listen on one of the ports from all others. If no spec shows a listener, all
// Pods that are not meant to end count as listening.
func byPorts(ports []corev1.ServicePort, all []Template) (serve, foreign []Template) {
	if len(ports) == 0 {
		return all, nil
	}
	for _, t := range all {
		if slices.ContainsFunc(ports, t.ListensOn) {
			serve = append(serve, t)
		} else {
			foreign = append(foreign, t)
		}
	}
	byNumber := func(p corev1.ServicePort) bool { return podspec.TargetOf(p).Type == intstr.Int }
	if len(serve) > 0 || !slices.ContainsFunc(ports, byNumber) {
		return serve, foreign
	}
	ends := func(t Template) bool { return t.Ends() }
	lasts := func(t Template) bool { return !t.Ends() }
	if !slices.ContainsFunc(all, lasts) {
		return all, nil
	}
	return filter(all, lasts), filter(all, ends)
}

func filter[T any](all []T, keep func(T) bool) (kept []T) {
	for _, e := range all {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}
