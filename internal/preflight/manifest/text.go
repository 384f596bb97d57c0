package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A Place is a line of a file.
type Place struct {
	File     string `json:"file"`               // as it was named, or "standard input"
	Line     int    `json:"line"`               // from 1
	Template string `json:"template,omitempty"` // of a chart, from Helm's comment "# Source:" above a rendered object
}

func (p Place) String() string {
	text := fmt.Sprintf("%s:%d", p.File, p.Line)
	if p.Template != "" {
		return p.Template + " (" + text + ")"
	}
	return text
}

// Path returns the file that people edit: for a rendered object, the template.
func (p Place) Path() string {
	if p.Template != "" {
		return p.Template
	}
	if p.File == standardInput {
		return "standard-input"
	}
	return p.File
}

// A text is one document of a file: YAML, or a JSON value.
type text struct {
	Place        // of its first line
	data  []byte // the document alone
	isOne bool   // a JSON value
	tree  *goyaml.Node
}

// split returns the documents of a file. Each begins at a line "---", or is one of several JSON values in a row.
func split(file string, data []byte) (all []text) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	start, first, n := 0, 1, 0
	for at := 0; at < len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		n++
		line := bytes.TrimRight(data[at:end], "\r\n")
		marks := bytes.HasPrefix(line, []byte("---")) || bytes.Equal(bytes.TrimSpace(line), []byte("..."))
		if marks && (len(line) == 3 || line[3] == ' ' || line[3] == '\t') {
			all = append(all, values(file, first, data[start:at])...)
			start, first = at+3, n // what follows on the line belongs to the document
		}
		at = end
	}
	return append(all, values(file, first, data[start:])...)
}

var sourceComment = regexp.MustCompile(`(?m)^# Source: (\S.*?)\s*$`)

// values returns a document, or each of several JSON values in a row.
func values(file string, line int, data []byte) (all []text) {
	body := bytes.TrimSpace(data)
	if len(body) == 0 {
		return nil
	}
	if body[0] == '{' {
		all = jsonValues(file, line, data)
	}
	if all == nil {
		all = []text{{Place: Place{File: file, Line: line}, data: data}}
	}
	head := data
	if i := bytes.Index(data, []byte("\nkind:")); i >= 0 {
		head = data[:i]
	}
	if m := sourceComment.FindSubmatch(head); m != nil {
		for i := range all {
			all[i].Template = string(m[1])
		}
	}
	return all
}

// jsonValues returns nil if the text is not JSON from its beginning to its end.
func jsonValues(file string, line int, data []byte) (all []text) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	at := 0
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			return nil
		}
		end := int(decoder.InputOffset())
		start := end - len(value)
		line += bytes.Count(data[at:start], []byte("\n"))
		all = append(all, text{Place: Place{File: file, Line: line}, data: value, isOne: true})
		line += bytes.Count(data[start:end], []byte("\n"))
		at = end
	}
}

// A fieldError is about a field of an object, or a line of its document.
type fieldError struct {
	field   string // such as spec.template.spec.containers[0].image; "" if only the line is known
	line    int    // within the document, from 1; 0 if only the field is known
	text    string
	invalid bool // kubectl refuses it only with --validate=strict, its default
	fits    func(*goyaml.Node) bool
}

func (e *fieldError) Error() string { return e.text }

var (
	yamlLine     = regexp.MustCompile(`line (\d+): `)
	duplicateKey = regexp.MustCompile(`^\s*line (\d+): key "?(.*?)"? already set in map$`)
)

// json returns the document as JSON, nil if it cannot be read. A key that is set twice is an error too, but then the
// document is returned, with the last value. A key beside a merge, "<<", may set anew what is merged.
func (t *text) json() (raw json.RawMessage, errs []error) {
	if t.isOne {
		return t.data, nil
	}
	raw, err := yaml.YAMLToJSONStrict(t.data)
	if err == nil {
		return raw, nil
	}
	if strings.Contains(err.Error(), "already set in map") {
		for line := range strings.Lines(err.Error()) {
			if m := duplicateKey.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				n, _ := strconv.Atoi(m[1])
				if !isTwice(t.root(), m[2], n) {
					continue
				}
				text := fmt.Sprintf("the key %q is set a second time", m[2])
				errs = append(errs, &fieldError{line: n, invalid: true, text: text})
			}
		}
		if raw, err := yaml.YAMLToJSON(t.data); err == nil {
			return raw, errs
		}
	}
	return nil, []error{t.syntaxError(err)}
}

// syntaxError says where a document is not YAML, and whether a tab is the reason.
func (t *text) syntaxError(err error) error {
	is := &fieldError{text: err.Error(), line: 1}
	is.text = strings.TrimPrefix(is.text, "error converting YAML to JSON: ")
	is.text = strings.TrimPrefix(is.text, "yaml: ")
	if m := yamlLine.FindStringSubmatchIndex(is.text); m != nil {
		is.line, _ = strconv.Atoi(is.text[m[2]:m[3]])
		is.text = is.text[:m[0]] + is.text[m[1]:]
	}
	lines := bytes.Split(t.data, []byte("\n"))
	for _, n := range []int{is.line, is.line + 1, is.line - 1} {
		if n < 1 || n > len(lines) {
			continue
		}
		if indentedWithTab(lines[n-1]) {
			return &fieldError{line: n, text: "this line is indented with a tab, and YAML takes only spaces"}
		}
	}
	is.text = "this is no YAML: " + is.text
	if body := bytes.TrimSpace(t.data); bytes.HasPrefix(body, []byte("{")) && strings.HasSuffix(t.File, ".json") {
		var value json.RawMessage
		err := json.Unmarshal(t.data, &value)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			line := 1 + bytes.Count(t.data[:syntax.Offset], []byte("\n"))
			return &fieldError{line: line, text: "this is no JSON: " + err.Error()}
		}
	}
	return is
}

// indentedWithTab reports whether a line that is not empty has a tab before its text.
func indentedWithTab(line []byte) bool {
	text := bytes.TrimLeft(line, " \t")
	return bytes.ContainsRune(line[:len(line)-len(text)], '\t') && len(bytes.TrimSpace(text)) > 0
}

// at returns the place of an error in the document. For an item of a List, in is the path to it.
func (t *text) at(in string, e *fieldError) Place {
	if e.line > 0 {
		return t.line(e.line)
	}
	return t.find(in+"."+e.field, e.fits)
}

func (t *text) line(n int) Place {
	p := t.Place
	p.Line += n - 1
	return p
}

// find returns the place of a field, such as spec.template.spec.containers[web].image: a list's item has its name or
// its number. If the field is not there, it returns the place of the nearest field that would hold it. If the path
// leaves out which item is meant, it is the first in which the field fits.
func (t *text) find(path string, fits func(*goyaml.Node) bool) Place {
	root := t.root()
	line, _ := descend(root, strings.TrimPrefix(path, "."), root.Line, fits)
	return t.line(max(line, 1))
}

// root returns the node of the document's object. It has no content if the document cannot be read.
func (t *text) root() *goyaml.Node {
	if t.tree == nil {
		t.tree = &goyaml.Node{}
		data := t.data
		if t.isOne {
			data = bytes.ReplaceAll(data, []byte("\t"), []byte(" ")) // JSON may be indented with tabs
		}
		if goyaml.Unmarshal(data, t.tree) != nil || len(t.tree.Content) == 0 {
			t.tree = &goyaml.Node{Line: 1}
		} else {
			t.tree = t.tree.Content[0]
		}
	}
	return t.tree
}

// isTwice reports whether a mapping below a node has a key at a line, and once more.
func isTwice(n *goyaml.Node, key string, line int) bool {
	times, isThere := 0, false
	for i, child := range n.Content {
		if isTwice(child, key, line) {
			return true
		}
		if n.Kind == goyaml.MappingNode && i%2 == 0 && child.Value == key {
			times, isThere = times+1, isThere || child.Line == line
		}
	}
	return times > 1 && isThere
}

// descend follows a path below a node that stands at a line. It returns the line of the last part that is there, and
// whether all of it is there and fits.
func descend(n *goyaml.Node, path string, line int, fits func(*goyaml.Node) bool) (int, bool) {
	if n.Kind == goyaml.AliasNode {
		n = n.Alias
	}
	path = strings.TrimPrefix(path, ".")
	if path == "" {
		return line, fits == nil || fits(n)
	}
	switch n.Kind {
	case goyaml.MappingNode:
		key, value := longestKey(n, path)
		if key == nil {
			return line, false
		}
		return descend(value, path[len(key.Value):], key.Line, fits)
	case goyaml.SequenceNode:
		item, rest := "", path
		if name, after, ok := strings.Cut(strings.TrimPrefix(path, "["), "]"); ok && path[0] == '[' {
			item, rest = name, after
		}
		for i, child := range n.Content {
			if item != "" && item != strconv.Itoa(i) && item != nameOf(child) {
				continue
			}
			if at, ok := descend(child, rest, child.Line, fits); ok || item != "" {
				return at, ok
			}
		}
	}
	return line, false
}

// longestKey returns the longest key of a mapping that the path begins with: keys may have dots.
func longestKey(n *goyaml.Node, path string) (key, value *goyaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		rest, ok := strings.CutPrefix(path, k.Value)
		whole := ok && k.Value != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
		if whole && (key == nil || len(k.Value) >= len(key.Value)) {
			key, value = k, n.Content[i+1]
		}
	}
	return key, value
}

func nameOf(n *goyaml.Node) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Kind == goyaml.MappingNode && n.Content[i].Value == "name" {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// decodeStrict reads an object as the API server does, and reports whether it could. The errors are of type fieldError:
// a field with a value of another type, or, if the object could be read, fields that do not exist or are set twice. If
// the type of the object has only some of the fields, others are no mistake.
func decodeStrict(raw json.RawMessage, object any, partial bool) (errs []error, ok bool) {
	strict, err := kjson.UnmarshalStrict(raw, object)
	switch {
	case err != nil:
		return []error{wrongType(err)}, false
	case partial:
		return nil, true
	}
	return strictErrors(fieldsIn(reflect.TypeOf(object)), strict), true
}

// strictErrors returns the errors of a strict decoding: fields that do not exist, each with the nearest that does, and
// fields that are set twice.
func strictErrors(fields fieldsOf, errs []error) (all []error) {
	for _, err := range errs {
		e, ok := err.(kjson.FieldError)
		if !ok || strings.HasPrefix(e.FieldPath(), "status.") { // the API server's own, of any version
			continue
		}
		path := e.FieldPath()
		parent, name := parentOf(path)
		is := &fieldError{field: path, invalid: true, text: fmt.Sprintf("%s is set a second time", path)}
		if strings.HasPrefix(err.Error(), "unknown field") {
			is.text = fmt.Sprintf("there is no field %s", path)
			if near := Nearest(name, fields(parent)); near != "" {
				is.text += fmt.Sprintf(": did you mean %s?", near)
			}
		}
		all = append(all, is)
	}
	return all
}

func parentOf(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], path[i+1:]
}

// wrongType says which field has a value of the wrong type.
func wrongType(err error) error {
	text := err.Error()
	m := unmarshalError.FindStringSubmatch(text)
	if m == nil {
		return &fieldError{text: strings.TrimPrefix(text, "json: ")}
	}
	value, field, wanted := m[1], m[2], m[3]
	takes, kinds := "an object", []string{"!!map", "!!null"}
	switch {
	case strings.Contains(wanted, "int"):
		takes, kinds = "a whole number", []string{"!!int", "!!null"}
	case strings.Contains(wanted, "float"):
		takes, kinds = "a number", []string{"!!int", "!!float", "!!null"}
	case wanted == "bool":
		takes, kinds = "true or false", []string{"!!bool", "!!null"}
	case strings.HasPrefix(wanted, "[]"):
		takes, kinds = "a list", []string{"!!seq", "!!null"}
	case wanted == "string":
		takes, kinds = "a string", []string{"!!str", "!!null"}
	}
	return &fieldError{
		field: field, text: fmt.Sprintf("%s is %s, and it takes %s", field, article(value), takes),
		fits: func(n *goyaml.Node) bool { return !slices.Contains(kinds, n.ShortTag()) },
	}
}

// unmarshalError matches what encoding/json says of a value of the wrong type.
var unmarshalError = regexp.MustCompile(
	`^json: cannot unmarshal (.+?) into Go struct field [^.]*\.(\S+) of type (\S+)$`)

func article(value string) string {
	switch {
	case value == "array":
		return "a list"
	case value == "bool":
		return "true or false"
	case value == "object":
		return "an object"
	}
	return "a " + value
}
