// Package manifest reads objects of Kubernetes from YAML and JSON: files, directories and standard input. It says what
// is wrong with them and where, as kubectl does, and what they have of a Service.
package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/correlate/quantity"
	"lapse/internal/hint"
	"lapse/internal/hint/input"
)

// Manifests are the objects of files, with the lines they were read from.
type Manifests struct {
	Problems []Problem // what kubectl refuses, or cannot be read at all, and what replaces another file's

	objects  []object
	skipped  map[string]int // objects of kinds that are not read: how many of each
	places   map[objectKey]origin
	passed   []string // files without an object of Kubernetes, below directories
	rendered []string // commands that render the charts and kustomizations below directories
	checked  Annotation
}

// An Annotation has a name, and a check that returns what is wrong with its value.
type Annotation struct {
	Name  string
	Check func(value string) []error
}

// A Problem is a part of a file that cannot be read, that the API server refuses, or that replaces an object of another
// file.
type Problem struct {
	Place
	Object  string `json:"object,omitempty"` // such as Deployment/web; absent if it is not known
	Text    string `json:"text"`
	Warning bool   `json:"warning,omitempty"` // it does not fail the check

	invalid bool // kubectl refuses it only with --validate=strict
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

// standardInput is the name of what is read from "-".
const standardInput = "standard input"

// An objectKey names an object of the manifests.
type objectKey struct{ kind, namespace, name string }

// An origin is the document that an object is in, and the path to it within a List.
type origin struct {
	text *text
	in   string
}

// Validation says how fields that do not exist and keys that are set twice are treated, as kubectl's --validate does.
type Validation string

const (
	Strict Validation = "strict" // they are problems
	Warn   Validation = "warn"   // they are warnings
	Ignore Validation = "ignore"
)

// Validations lists them.
var Validations = []Validation{Strict, Warn, Ignore}

// Read reads objects from files, from the YAML and JSON files of directories and those below them, and for "-" from in.
// What cannot be read is in [Manifests.Problems], and the rest is read nevertheless. Objects and their templates may
// have an annotation that is checked.
//
// Below a directory, files without objects of Kubernetes are passed over. Hidden files and directories, node_modules,
// vendor, Helm charts, and the patches of kustomizations are left out.
func Read(paths []string, in io.Reader, validation Validation, checked Annotation) *Manifests {
	m := &Manifests{skipped: map[string]int{}, places: map[objectKey]origin{}, checked: checked}
	for _, path := range paths {
		m.readPath(path, in)
	}
	for i := range m.Problems {
		m.Problems[i].Warning = m.Problems[i].invalid && validation == Warn
	}
	if validation == Ignore {
		m.Problems = slices.DeleteFunc(m.Problems, func(p Problem) bool { return p.invalid })
	}
	m.warnOfReplaced()
	return m
}

// Err returns the problems that are not warnings, a line for each; nil if there is none.
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
		if !t.patches[filepath.Clean(dir)] { // a base is rendered with what builds on it
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

func (m *Manifests) readFile(path string, inTree bool) {
	file, err := os.Open(path)
	if err != nil {
		m.problem(path, "%v", err)
		return
	}
	defer file.Close()
	m.readAll(path, file, inTree)
}

// readAll reads the documents of a file. Below a directory, a file without objects is passed over.
func (m *Manifests) readAll(name string, in io.Reader, inTree bool) {
	data, err := input.All(in, name, input.Manifests)
	if err != nil {
		m.problem(name, "%v", err)
		return
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		m.problem(name, "this is UTF-16, of which kubectl takes no more than the first document: save it as UTF-8")
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
			const text = "this is a template: render it first, with `helm template` for example"
			errs = []error{&fieldError{line: 1, text: text}}
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

// wrong says what is wrong with the annotation of an object, or of its template.
func (a Annotation) wrong(of annotated, field string) (errs []error) {
	if a.Check == nil {
		return nil
	}
	for _, err := range a.Check(of.Annotations[a.Name]) {
		errs = append(errs, &fieldError{field: field + ".annotations." + a.Name, text: err.Error()})
	}
	return errs
}

// readObject reads an object, or each of a List, and reports whether it is meant to be one of Kubernetes.
func (m *Manifests) readObject(t *text, in string, raw json.RawMessage, errs []error, inTree bool) bool {
	var is header
	err := json.Unmarshal(raw, &is)
	switch problem := is.notOne(err, inTree); {
	case problem != "" && inTree:
		return false
	case problem != "":
		m.report(t, in, "", []error{&fieldError{text: problem}})
		return false
	case is.APIVersion == "" || is.Kind == "":
		missing := "apiVersion"
		if is.Kind == "" {
			missing = "kind"
		}
		object := strings.Trim(is.Kind+"/"+is.Metadata.Name, "/")
		m.report(t, in, object, []error{&fieldError{text: "it has no " + missing}})
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
	from := origin{t, in}
	decoded, isRead := m.add(raw, from)
	if !isRead { // its mistakes do not matter
		return true
	}
	errs = slices.Concat(errs, decoded,
		m.checked.wrong(is.Metadata.annotated, "metadata"),
		m.checked.wrong(is.Spec.Template.Metadata, "spec.template.metadata"))
	name := cmp.Or(is.Metadata.Name, is.Metadata.GenerateName)
	if name == "" && len(errs) == 0 {
		errs = append(errs, &fieldError{field: "metadata", text: "it has no name"})
	}
	m.places[objectKey{is.Kind, is.Metadata.Namespace, is.Metadata.Name}] = from
	m.report(t, in, strings.TrimSuffix(is.Kind+"/"+name, "/"), errs)
	return true
}

// notOne says why a document is no object of Kubernetes, "" if it may be one. Below a directory, a document without an
// apiVersion or a kind is taken for something else.
func (is *header) notOne(err error, inTree bool) string {
	const none = "this is no object of Kubernetes"
	switch {
	case err != nil && (is.APIVersion == "" || is.Kind == ""):
		return none
	case is.APIVersion == "" && is.Kind == "",
		inTree && is.Kind == "",
		inTree && is.APIVersion == "" && !isKind(is.Kind):
		return none + ": it has neither apiVersion nor kind"
	}
	return ""
}

// report adds what is wrong with a document to the problems, in the order of its lines.
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

// Place returns where a field of an object stands.
func (m *Manifests) Place(kind, namespace, name, field string) (Place, bool) {
	for _, ns := range []string{namespace, ""} {
		if o, ok := m.places[objectKey{kind, ns, name}]; ok {
			return o.text.find(o.in+"."+field, nil), true
		}
	}
	return Place{}, false
}

// isTemplate reports whether a text is a Go template, as the files of charts are.
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

// Notes says what was not read, for people.
func (m *Manifests) Notes() (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if len(m.skipped) > 0 {
		var kinds []string
		n := 0
		for _, kind := range slices.Sorted(maps.Keys(m.skipped)) {
			n += m.skipped[kind]
			kinds = append(kinds, fmt.Sprintf("%d %s", m.skipped[kind], kind[strings.LastIndexByte(kind, ' ')+1:]))
		}
		note("%s of other kinds: %s", quantity.Count(n, "object"), some(kinds, 12))
	}
	if n := len(m.passed); n > 0 {
		note("%s without an object of Kubernetes: %s", quantity.Count(n, "file"), some(m.passed, 5))
	}
	if len(m.rendered) > 0 {
		note("a chart or a kustomization is judged once it is rendered: %s", some(m.rendered, 5))
	}
	return notes
}
