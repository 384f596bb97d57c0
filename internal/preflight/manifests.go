package preflight

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/hint"
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
	objects []object
	skipped map[string]int // documents of other kinds
}

// An object is one of a kind that counts.
type object struct {
	metav1.Object
	kind *kind
}

// add keeps an object of a kind that counts.
func (m *manifests) add(raw json.RawMessage) []error {
	var is metav1.TypeMeta
	if err := json.Unmarshal(raw, &is); err != nil {
		return []error{wrongType(err)}
	}
	if errs := misspelt(is.APIVersion, is.Kind); errs != nil {
		return errs
	}
	kind := kindNamed(is.APIVersion, is.Kind, raw)
	if kind == nil {
		m.skipped[strings.TrimSpace(is.APIVersion+" "+is.Kind)]++
		return nil
	}
	o := object{kind.object(), kind}
	errs, ok := decodeStrict(raw, o.Object, kind.partial)
	if ok {
		m.objects = append(m.objects, o)
		if !kind.partial {
			errs = append(errs, invalid(o)...)
		}
	}
	return errs
}

// State is what the manifests have of a Service. Of objects in several namespaces, those of the one given are meant,
// and those that name none.
func (m *manifests) State(namespace, service string) (*State, error) {
	svc, err := m.service(namespace, service)
	if err != nil {
		return nil, err
	}
	return m.of(svc), nil
}

// services returns the Services, each once: the last of several documents counts. One without a namespace is the same
// as one of its name with a namespace.
func (m *manifests) services() (all []*corev1.Service) {
	for _, o := range m.objects {
		s, ok := o.Object.(*corev1.Service)
		if !ok {
			continue
		}
		i := slices.IndexFunc(all, func(other *corev1.Service) bool {
			return other.Name == s.Name && (other.Namespace == s.Namespace || other.Namespace == "" || s.Namespace == "")
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

// service finds the Service that is meant.
func (m *manifests) service(namespace, name string) (*corev1.Service, error) {
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
		return nil, hint.Errorf("they have "+some(names, 12), "the manifests have no Service %q", cmp.Or(strings.TrimPrefix(namespace+"/"+name, "/")))
	}
	return nil, hint.Errorf("add the file that has it with another -f", "the manifests have no Service")
}
