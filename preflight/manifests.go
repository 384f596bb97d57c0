package preflight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"lapse/correlate/quantity"
	"lapse/hint"
)

// FromManifests reads a Service and what is behind it from files, from the YAML and JSON files of directories and
// those below them, and for "-" from in. Of objects in several namespaces, those of the one given are meant, and
// those that name none.
//
// Other kinds are skipped, with a line in [State.Notes]. The error says which document of which file cannot be read.
func FromManifests(paths []string, in io.Reader, namespace, service string) (*State, error) {
	m := &manifests{skipped: map[string]int{}}
	for _, path := range paths {
		if err := m.readPath(path, in); err != nil {
			return nil, err
		}
	}
	return m.state(namespace, service)
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

func (m *manifests) readPath(path string, in io.Reader) error {
	if path == "-" {
		return m.read("standard input", in)
	}
	info, err := os.Stat(path)
	if err != nil {
		return hint.Errorf("name a file, a directory, or - for standard input", "read manifests: %w", err)
	}
	if !info.IsDir() {
		return m.readFile(path)
	}
	files := 0
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
			return err
		}
		files++
		return m.readFile(file)
	})
	if err == nil && files == 0 {
		return hint.Errorf("name the file itself, if it ends otherwise", "read manifests: %s has no .yaml, .yml or .json file", path)
	}
	return err
}

func (m *manifests) readFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	defer file.Close()
	return m.read(path, file)
}

// read takes a stream of YAML documents, or of JSON.
func (m *manifests) read(name string, in io.Reader) error {
	documents := yaml.NewYAMLOrJSONDecoder(in, 4096)
	for n := 1; ; n++ {
		var raw json.RawMessage
		err := documents.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = m.add(raw)
		}
		if err != nil {
			return hint.Errorf("check it with `kubectl apply --dry-run=client -f`; a template must be rendered first (helm template, kustomize build)", "read manifests: %s, document %d: %w", name, n, err)
		}
	}
}

// add keeps an object of a kind that counts. A List is all that is in it.
func (m *manifests) add(raw json.RawMessage) error {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var is struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return fmt.Errorf("no object of Kubernetes: %w", err)
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
	case "v1 List":
		for _, item := range is.Items {
			if err := m.add(item); err != nil {
				return err
			}
		}
		return nil
	case " ":
		return errors.New("no object of Kubernetes: it has neither apiVersion nor kind")
	}
	m.skipped[strings.TrimSpace(is.APIVersion+" "+is.Kind)]++
	return nil
}

func keep[T any](raw json.RawMessage, in *[]T) error {
	var object T
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	*in = append(*in, object)
	return nil
}

// state is what the manifests have of a Service. Placement they have not.
func (m *manifests) state(namespace, service string) (*State, error) {
	svc, err := m.service(namespace, service)
	if err != nil {
		return nil, err
	}
	here := func(o metav1.Object) bool {
		return o.GetNamespace() == "" || svc.Namespace == "" || o.GetNamespace() == svc.Namespace
	}
	const nowhere = "manifests do not say where Pods run"
	s := &State{Service: svc, RouteLag: AssumedLag, Missing: map[Fact]string{EndpointsFact: nowhere, NodesFact: "manifests have no nodes", ProxyFact: "manifests do not have the configuration of kube-proxy"}}
	for kind, n := range maps.All(m.skipped) {
		s.Notes = append(s.Notes, fmt.Sprintf("skipped %s of kind %s", quantity.Count(n, "document"), kind))
	}
	slices.Sort(s.Notes)
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
