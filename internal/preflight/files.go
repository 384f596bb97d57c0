package preflight

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"lapse/correlate/quantity"
	"lapse/internal/hint"
	"lapse/internal/hint/input"
)

// Manifests are the objects of files, with the lines they were read from.
type Manifests struct {
	manifests
	Problems []Problem // what kubectl refuses, or cannot be read at all

	places   map[objectKey]origin
	passed   []string // files of directories that have no object of Kubernetes
	rendered []string // commands that render a chart or a kustomization of the directories
}

// A Problem is something of a file that cannot be read, or that the API server does not take.
type Problem struct {
	Place
	Object  string `json:"object,omitempty"` // such as Deployment/web; absent if it is not known
	Text    string `json:"text"`
	Warning bool   `json:"warning,omitempty"` // it does not fail the check

	invalid bool // what --validate is about
}

func (p Problem) String() string {
	text := p.Place.String() + ": "
	if p.Line == 0 {
		text = p.File + ": "
	}
	if p.Object != "" {
		text += p.Object + ": "
	}
	return text + p.Text
}

// standardInput stands for a file's name.
const standardInput = "standard input"

// An objectKey names an object of the manifests.
type objectKey struct{ kind, namespace, name string }

// An origin is the document that an object is in, and the path to it within a List.
type origin struct {
	text *text
	in   string
}

// Validation says what becomes of fields that do not exist and of keys that are set twice, as kubectl's --validate
// does.
type Validation string

const (
	Strict Validation = "strict" // they are problems
	Warn   Validation = "warn"   // they are warnings
	Ignore Validation = "ignore"
)

// Validations lists them.
var Validations = []Validation{Strict, Warn, Ignore}

// ReadManifests reads objects from files, from the YAML and JSON files of directories and those below them, and for
// "-" from in. What cannot be read is in [Manifests.Problems], and the rest is read all the same.
//
// Of a directory only files with objects of Kubernetes count. Left out are hidden files and directories, those named
// node_modules and vendor, Helm charts, and the patches of kustomizations.
func ReadManifests(paths []string, in io.Reader, validation Validation) *Manifests {
	m := &Manifests{manifests: manifests{skipped: map[string]int{}}, places: map[objectKey]origin{}}
	for _, path := range paths {
		m.readPath(path, in)
	}
	for i := range m.Problems {
		m.Problems[i].Warning = m.Problems[i].invalid && validation == Warn
	}
	if validation == Ignore {
		m.Problems = slices.DeleteFunc(m.Problems, func(p Problem) bool { return p.invalid })
	}
	return m
}

// Err returns the problems that are no warnings, a line for each; nil if there is none.
func (m *Manifests) Err() error {
	var lines []string
	for _, p := range m.Problems {
		if !p.Warning {
			lines = append(lines, p.String())
		}
	}
	if lines == nil {
		return nil
	}
	return hint.Errorf(m.advice(), "read manifests: %s", strings.Join(lines, "\n  "))
}

// advice says what to try about the problems.
func (m *Manifests) advice() string {
	switch {
	case len(m.rendered) > 0:
		return "render first: " + some(m.rendered, 3)
	case slices.ContainsFunc(m.Problems, func(p Problem) bool { return p.invalid }):
		return "kubectl apply refuses the same; --validate=warn does not"
	}
	return ""
}

func (m *Manifests) problem(file, format string, args ...any) {
	m.Problems = append(m.Problems, Problem{Place: Place{File: file}, Text: fmt.Sprintf(format, args...)})
}

func (m *Manifests) readPath(path string, in io.Reader) {
	if path == "-" {
		m.readAll(standardInput, in, false)
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		m.problem(path, "%v: name a file, a directory, or - for standard input", errors.Unwrap(err))
	case info.IsDir():
		m.readTree(filepath.Clean(path))
	case isKustomization(path):
		m.render("kubectl kustomize " + filepath.Dir(path))
		m.problem(path, "this is a kustomization, not an object")
	default:
		m.readFile(path, false)
	}
}

func (m *Manifests) readFile(path string, inTree bool) {
	file, err := os.Open(path)
	if err != nil {
		m.problem(path, "%v", err)
		return
	}
	defer file.Close()
	m.readAll(path, file, inTree)
}

// readAll reads a file of documents. In a tree a file without objects is passed over.
func (m *Manifests) readAll(name string, in io.Reader, inTree bool) {
	data, err := input.All(in, name, input.Manifests)
	if err != nil {
		m.problem(name, "%v", err)
		return
	}
	documents := split(name, data)
	found := 0
	for i := range documents {
		if m.readText(&documents[i], inTree) {
			found++
		}
	}
	if inTree && found == 0 {
		m.passed = append(m.passed, name)
	}
}

// readText reads a document, and reports whether it is meant to be an object of Kubernetes.
func (m *Manifests) readText(t *text, inTree bool) bool {
	raw, errs := t.json()
	if raw == nil {
		if inTree && (isTemplate(t.data) || !looksLikeObject(t.data)) {
			return false
		}
		if isTemplate(t.data) {
			errs = []error{&fieldError{line: 1, text: "this is a template: render it first, with `helm template` for example"}}
		}
		m.report(t, "", "", errs)
		return true
	}
	if string(raw) == "null" {
		return false
	}
	return m.readObject(t, "", raw, errs, inTree)
}

// header is what all objects have.
type header struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`
		annotated
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Metadata annotated `json:"metadata"`
		} `json:"template"`
	} `json:"spec"`
	Items []json.RawMessage `json:"items"`
}

type annotated struct {
	Annotations map[string]string `json:"annotations"`
}

// wrong says what cannot be read of the annotation that accepts findings.
func (a annotated) wrong(field string) (errs []error) {
	_, wrong := ignored(a.Annotations[IgnoreAnnotation])
	for _, err := range wrong {
		errs = append(errs, &fieldError{field: field + ".annotations." + IgnoreAnnotation, text: err.Error()})
	}
	return errs
}

func (m *Manifests) readObject(t *text, in string, raw json.RawMessage, errs []error, inTree bool) bool {
	var is header
	if err := json.Unmarshal(raw, &is); err != nil && (is.APIVersion == "" || is.Kind == "") {
		if !inTree {
			m.report(t, in, "", []error{&fieldError{text: "this is no object of Kubernetes"}})
		}
		return false
	}
	switch {
	case is.APIVersion == "" && is.Kind == "", inTree && (is.Kind == "" || is.APIVersion == "" && !isKind(is.Kind)):
		if !inTree {
			m.report(t, in, "", []error{&fieldError{text: "this is no object of Kubernetes: it has neither apiVersion nor kind"}})
		}
		return false
	case is.APIVersion == "" || is.Kind == "":
		missing := "apiVersion"
		if is.Kind == "" {
			missing = "kind"
		}
		m.report(t, in, strings.Trim(is.Kind+"/"+is.Metadata.Name, "/"), []error{&fieldError{text: "it has no " + missing}})
		return true
	case is.Kind == "Kustomization" && strings.HasPrefix(is.APIVersion, "kustomize.config.k8s.io/"):
		return true
	case strings.HasSuffix(is.Kind, "List") && is.Items != nil:
		for i, item := range is.Items {
			m.readObject(t, fmt.Sprintf("%s.items[%d]", in, i), item, nil, false)
		}
		m.report(t, in, "", errs)
		return true
	}
	before := m.skippedAll()
	name := is.Kind + "/" + cmp.Or(is.Metadata.Name, is.Metadata.GenerateName)
	errs = slices.Concat(errs, m.add(raw), is.Metadata.wrong("metadata"), is.Spec.Template.Metadata.wrong("spec.template.metadata"))
	if m.skippedAll() > before { // of no interest: neither are its mistakes
		return true
	}
	if strings.HasSuffix(name, "/") && len(errs) == 0 {
		errs = append(errs, &fieldError{field: "metadata", text: "it has no name"})
	}
	name = strings.TrimSuffix(name, "/")
	m.places[objectKey{is.Kind, is.Metadata.Namespace, is.Metadata.Name}] = origin{t, in}
	m.report(t, in, name, errs)
	return true
}

func (m *Manifests) skippedAll() (n int) {
	for _, of := range m.skipped {
		n += of
	}
	return n
}

// report notes what is wrong with a document, in the order of its lines.
func (m *Manifests) report(t *text, in, object string, errs []error) {
	from := len(m.Problems)
	for _, err := range errs {
		p := Problem{Place: t.Place, Object: object, Text: err.Error()}
		if e, ok := errors.AsType[*fieldError](err); ok {
			p.Place, p.invalid = t.at(in, e), e.invalid
		}
		m.Problems = append(m.Problems, p)
	}
	slices.SortStableFunc(m.Problems[from:], func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
}

// place returns where a field of an object stands.
func (m *Manifests) place(kind, namespace, name, field string) (Place, bool) {
	for _, ns := range []string{namespace, ""} {
		if o, ok := m.places[objectKey{kind, ns, name}]; ok {
			return o.text.find(o.in+"."+field, nil), true
		}
	}
	return Place{}, false
}

// isTemplate reports whether a text has the actions of a Go template, as charts have.
func isTemplate(data []byte) bool { return bytes.Contains(data, []byte("{{")) }

// isKind reports whether a kind is one that is read.
func isKind(name string) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name })
}

// looksLikeObject reports whether a text has the keys of an object of Kubernetes, wherever they stand in it.
func looksLikeObject(data []byte) bool {
	found := map[string]bool{}
	for _, m := range objectKeys.FindAllSubmatch(data, -1) {
		found[string(m[1])] = true
	}
	return found["kind"] && (found["apiVersion"] || found["metadata"] && found["spec"])
}

var objectKeys = regexp.MustCompile(`(?m)^[ \t]*"?(apiVersion|kind|metadata|spec)"?:`)

// readTree reads the files of a directory and of those below it.
func (m *Manifests) readTree(root string) {
	t := tree{patches: map[string]bool{}}
	if err := t.walk(root); err != nil {
		m.problem(root, "%v", err)
	}
	for _, dir := range t.charts {
		m.render("helm template " + dir)
	}
	for _, dir := range t.kustomizations {
		if !t.patches[filepath.Clean(dir)] { // a base is rendered by what is made of it
			m.render("kubectl kustomize " + dir)
		}
	}
	files := 0
	for _, file := range t.files {
		if t.patches[file] {
			continue
		}
		files++
		m.readFile(file, true)
	}
	if files == 0 && len(t.charts)+len(t.kustomizations) == 0 {
		m.problem(root, "it has no .yaml, .yml or .json file: name the file itself, if it ends otherwise")
	}
}

func (m *Manifests) render(command string) {
	if command += " | lapse preflight -f -"; !slices.Contains(m.rendered, "`"+command+"`") {
		m.rendered = append(m.rendered, "`"+command+"`")
	}
}

// A tree is what is found below a directory.
type tree struct {
	files          []string
	charts         []string
	kustomizations []string        // directories
	patches        map[string]bool // files that kustomizations patch with, and directories that they build on
}

func (t *tree) walk(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "vendor") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "Chart.yaml")); err == nil {
				t.charts = append(t.charts, path)
				return fs.SkipDir
			}
		case isKustomization(path):
			t.kustomize(path)
		case strings.HasPrefix(name, "."):
		case slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() { // also what a link leads to
				t.files = append(t.files, path)
			}
		}
		return nil
	})
}

func isKustomization(path string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, filepath.Base(path))
}

// kustomize notes what a kustomization patches with: that is no object of its own.
// https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/
func (t *tree) kustomize(path string) {
	type patch struct {
		Path string `json:"path"`
	}
	var is struct {
		Resources             []string `json:"resources"`
		Components            []string `json:"components"`
		Bases                 []string `json:"bases"`
		Patches               []patch  `json:"patches"`
		PatchesStrategicMerge []string `json:"patchesStrategicMerge"`
		PatchesJSON6902       []patch  `json:"patchesJson6902"`
		Transformers          []string `json:"transformers"`
		Generators            []string `json:"generators"`
		Replacements          []patch  `json:"replacements"`
		Configurations        []string `json:"configurations"`
	}
	dir := filepath.Dir(path)
	t.kustomizations = append(t.kustomizations, dir)
	data, err := input.File(path, input.Manifests)
	if err != nil || yaml.Unmarshal(data, &is) != nil {
		return
	}
	for _, name := range slices.Concat(is.PatchesStrategicMerge, is.Transformers, is.Generators, is.Configurations) {
		t.patches[filepath.Join(dir, name)] = true
	}
	for _, p := range slices.Concat(is.Patches, is.PatchesJSON6902, is.Replacements) {
		t.patches[filepath.Join(dir, p.Path)] = true
	}
	for _, name := range slices.Concat(is.Resources, is.Components, is.Bases) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
			t.patches[filepath.Join(dir, name)] = true
		}
	}
}

// Notes says what was not read, for people.
func (m *Manifests) Notes() (notes []string) {
	if len(m.skipped) > 0 {
		var kinds []string
		n := 0
		for _, kind := range slices.Sorted(maps.Keys(m.skipped)) {
			n += m.skipped[kind]
			kinds = append(kinds, fmt.Sprintf("%d %s", m.skipped[kind], kind[strings.LastIndexByte(kind, ' ')+1:]))
		}
		notes = append(notes, fmt.Sprintf("%s of other kinds: %s", quantity.Count(n, "object"), some(kinds, 12)))
	}
	if len(m.passed) > 0 {
		notes = append(notes, fmt.Sprintf("%s without an object of Kubernetes: %s", quantity.Count(len(m.passed), "file"), some(m.passed, 5)))
	}
	if len(m.rendered) > 0 {
		notes = append(notes, "a chart or a kustomization is judged once it is rendered: "+some(m.rendered, 5))
	}
	return notes
}

// some lists names, of many the first.
func some(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
