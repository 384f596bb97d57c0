package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/hint"
	"lapse/internal/preflight/service"
)

// An object is of a kind that is read.
type object struct {
	metav1.Object
	kind *kind
	origin
}

// add keeps an object if its kind is read, and counts it as skipped otherwise. It reports whether the kind is read.
func (m *Manifests) add(raw json.RawMessage, from origin) (errs []error, isRead bool) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(raw, &is); err != nil {
		return []error{wrongType(err)}, true
	}
	if errs := misspelt(is.APIVersion, is.Kind); errs != nil {
		return errs, true
	}
	kind := kindNamed(is.APIVersion, is.Kind, raw)
	if kind == nil {
		m.skipped[strings.TrimSpace(is.APIVersion+" "+is.Kind)]++
		return nil, false
	}
	o := object{kind.object(), kind, from}
	errs, ok := decodeStrict(raw, o.Object, kind.partial)
	if ok {
		m.objects = append(m.objects, o)
		if !kind.partial {
			errs = append(errs, invalid(o)...)
		}
	}
	return errs, true
}

// title returns the object as kubectl names it, without its namespace.
func (o object) title() string { return o.kind.name + "/" + o.GetName() }

// warnOfReplaced warns of objects that replace those of other files: a directory may hold several environments.
func (m *Manifests) warnOfReplaced() {
	type key struct{ title, namespace string }
	last := map[key]int{}
	replaced := make([][]string, len(m.objects)) // the files whose objects each one replaces
	for i, o := range slices.Backward(m.objects) {
		of := key{o.title(), o.GetNamespace()}
		by, known := last[of]
		switch {
		case !known:
			last[of] = i
		case o.GetName() != "" && m.objects[by].text.File != o.text.File &&
			!reflect.DeepEqual(m.objects[by].Object, o.Object):
			replaced[by] = append(replaced[by], o.text.File)
		}
	}
	for i, files := range replaced {
		if files != nil {
			slices.Sort(files)
			o := m.objects[i]
			m.Problems = append(m.Problems, Problem{
				Place: o.text.find(o.in+".metadata.name", nil), Object: o.title(), Warning: true,
				Text: "only this one is judged, and none in " + some(slices.Compact(files), 3) +
					": call preflight for each environment",
			})
		}
	}
}

// inNamespace returns the objects of a namespace and those that name none, each object once: as with kubectl apply,
// the last of several documents counts.
func (m *Manifests) inNamespace(namespace string) (all []object) {
	at := map[string][]int{}
	for _, o := range m.objects {
		if !sameNamespace(o.GetNamespace(), namespace) {
			continue
		}
		key := o.title()
		known := slices.IndexFunc(at[key], func(i int) bool {
			return sameNamespace(all[i].GetNamespace(), o.GetNamespace())
		})
		if known >= 0 && o.GetName() != "" { // without a name it is made with generateName: each is another
			all[at[key][known]] = o
			continue
		}
		at[key] = append(at[key], len(all))
		all = append(all, o)
	}
	return all
}

// sameNamespace reports whether two namespaces may be the same: "" may be any.
func sameNamespace(a, b string) bool { return a == "" || b == "" || a == b }

// services returns the Services, each once: the last of several documents counts. One without a namespace is the same
// as one of its name with a namespace.
func (m *Manifests) services() (all []*corev1.Service) {
	for _, o := range m.objects {
		s, ok := o.Object.(*corev1.Service)
		if !ok {
			continue
		}
		i := slices.IndexFunc(all, func(other *corev1.Service) bool {
			return other.Name == s.Name && sameNamespace(other.Namespace, s.Namespace)
		})
		if i < 0 {
			all = append(all, s)
			continue
		}
		namespace := cmp.Or(s.Namespace, all[i].Namespace)
		all[i] = s.DeepCopy()
		all[i].Namespace = namespace
	}
	return all
}

const addFile = "add the file that has it with another -f"

// service returns the Service of a name.
func (m *Manifests) service(namespace, name string) (*corev1.Service, error) {
	var found []*corev1.Service
	for _, s := range m.services() {
		if s.Name == name && sameNamespace(s.Namespace, namespace) {
			found = append(found, s)
		}
	}
	switch names := m.serviceNames(); {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, hint.Errorf("name its namespace with -n", "the manifests have %d Services %q", len(found), name)
	case len(names) > 0:
		full := strings.TrimPrefix(namespace+"/"+name, "/")
		return nil, hint.Errorf("they have "+some(names, 12), "the manifests have no Service %q", full)
	}
	return nil, hint.Errorf(addFile, "the manifests have no Service")
}

// serviceNames lists the Services as kubectl takes them.
func (m *Manifests) serviceNames() (names []string) {
	for _, s := range m.services() {
		name := "svc/" + s.Name
		if s.Namespace != "" {
			name += " -n " + s.Namespace
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// workload returns the workload that a target names. A Pod can be one, too.
func (m *Manifests) workload(namespace string, t service.Target) (*service.Workload, error) {
	var found []*service.Workload
	var names []string
	for _, o := range m.inNamespace(namespace) {
		w := workloadOf(o.kind.name, o.Object)
		if p, ok := o.Object.(*corev1.Pod); ok {
			template := corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
			w = &service.Workload{Kind: "Pod", Meta: p.ObjectMeta, Template: template}
		}
		if w == nil || service.KindWord(w.Kind) != t.Kind {
			continue
		}
		names = append(names, t.Kind+"/"+w.Meta.Name)
		if w.Meta.Name == t.Name {
			found = append(found, w)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, hint.Errorf("name its namespace with -n", "the manifests have %d objects %s", len(found), t)
	case len(names) == 0:
		return nil, hint.Errorf(addFile, "the manifests have no %s", t)
	}
	slices.Sort(names)
	return nil, hint.Errorf("they have "+some(slices.Compact(names), 12), "the manifests have no %s", t)
}

// some lists names, of many the first.
func some(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
