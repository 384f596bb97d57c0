package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// A template is a file of the chart: an object of a run or a guard, with expressions in place of the stand-ins among its values.
type template struct {
	file   string
	when   string // a condition; empty: always
	object runtime.Object
	// parts have the same object and more, each under a condition. They are independent of each other.
	parts []part
}

type part struct {
	when   string
	object runtime.Object
}

// An expression is what a stand-in becomes.
type expression struct {
	standIn string
	text    string // a Helm expression
	// each is a loop that writes an element with the stand-in, of the list with the key in.
	each, in string
	// lines says that text has lines of YAML, which replace the element of a list, or the field of a mapping, that is
	// the stand-in; or the one element, with the stand-in anywhere, of the list with the key in.
	lines bool
}

// A templater writes templates.
type templater struct {
	expressions []expression
	out         strings.Builder
}

func (w *templater) write(t template) string {
	w.out.Reset()
	w.optional(t.when, func() {
		var parts []node
		for _, p := range t.parts {
			parts = append(parts, node{p.when, fieldsOf(p.object)})
		}
		w.fields(0, fieldsOf(t.object), parts)
	})
	return w.out.String()
}

// fieldsOf returns an object as [WriteYAML] writes it.
func fieldsOf(object runtime.Object) map[string]any {
	text, err := toYAML(object)
	if err != nil {
		panic(err)
	}
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	return fields
}

// A node is a value that is there under a condition.
type node struct {
	when  string
	value any
}

func (w *templater) line(indent int, format string, args ...any) {
	fmt.Fprintf(&w.out, strings.Repeat(" ", indent)+format+"\n", args...)
}

func (w *templater) optional(when string, write func()) {
	if when != "" {
		w.line(0, "{{- if %s }}", when)
		defer w.line(0, "{{- end }}")
	}
	write()
}

// fields writes a mapping, and what parts add to it.
func (w *templater) fields(indent int, all map[string]any, parts []node) {
	keys := slices.Collect(maps.Keys(all))
	for _, p := range parts {
		keys = slices.AppendSeq(keys, maps.Keys(p.value.(map[string]any)))
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		value, always := all[key]
		var more []node
		for _, p := range parts {
			with, there := p.value.(map[string]any)[key]
			switch {
			case always && !there:
				panic("with " + p.when + " there is no " + key)
			case always && !reflect.DeepEqual(with, value):
				more = append(more, node{p.when, with})
			case !always && there:
				w.optional(p.when, func() { w.field(indent, key, with, nil) })
			}
		}
		if always {
			w.field(indent, key, value, more)
		}
	}
}

// lines writes the lines that replace a value, and reports whether there are any.
func (w *templater) lines(indent int, list string, value any) bool {
	for _, e := range w.expressions {
		if e.lines && (value == e.standIn || list != "" && e.in == list && strings.Contains(textOf(value), e.standIn)) {
			w.line(0, "{{- %s | trim | nindent %d }}", e.text, indent)
			return true
		}
	}
	return false
}

func (w *templater) field(indent int, key string, value any, parts []node) {
	if text, ok := value.(string); ok && w.lines(indent, "", text) {
		return
	}
	key = w.scalar(key)
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			w.line(indent, "%s: {}", key)
			return
		}
		w.line(indent, "%s:", key)
		w.fields(indent+2, value, parts)
	case []any:
		w.line(indent, "%s:", key)
		w.list(indent, key, value, parts)
	default:
		if len(parts) > 0 {
			panic(fmt.Sprintf("with %s, %s is %v instead of %v", parts[0].when, key, parts[0].value, value))
		}
		w.line(indent, "%s: %s", key, w.scalar(value))
	}
}

// list writes a list, and the elements that parts have besides or that differ in them. A loop replaces an element.
func (w *templater) list(indent int, key string, all []any, parts []node) {
	for i := range len(all) + 1 {
		var more, instead []node
		for _, p := range parts {
			theirs := p.value.([]any)
			if len(theirs) == len(all) {
				switch {
				case i == len(all) || reflect.DeepEqual(theirs[i], all[i]):
				case w.loop(key, theirs[i]) != w.loop(key, all[i]):
					instead = append(instead, node{p.when, theirs[i]})
				default:
					more = append(more, node{p.when, theirs[i]})
				}
				continue
			}
			if added := additions(all, theirs)[i]; len(added) > 0 {
				w.optional(p.when, func() {
					for _, element := range added {
						w.element(indent, key, element, nil)
					}
				})
			}
		}
		for _, n := range instead {
			w.line(0, "{{- if %s }}", n.when)
			w.element(indent, key, n.value, nil)
			w.line(0, "{{- else }}")
		}
		if i < len(all) {
			w.element(indent, key, all[i], more)
		}
		for range instead {
			w.line(0, "{{- end }}")
		}
	}
}

// additions returns the elements that theirs has besides all, by the index in all before which they are.
func additions(all, theirs []any) map[int][]any {
	added := map[int][]any{}
	i := 0
	for _, element := range theirs {
		if i < len(all) && reflect.DeepEqual(element, all[i]) {
			i++
		} else {
			added[i] = append(added[i], element)
		}
	}
	if i < len(all) {
		panic(fmt.Sprintf("%v lacks %v", theirs, all[i]))
	}
	return added
}

func (w *templater) element(indent int, list string, element any, parts []node) {
	if w.lines(indent, list, element) {
		return
	}
	if each := w.loop(list, element); each != "" {
		w.line(0, "{{- range %s }}", each)
		defer w.line(0, "{{- end }}")
	}
	fields, ok := element.(map[string]any)
	if !ok {
		w.line(indent, "- %s", w.scalar(element))
		return
	}
	if len(fields) == 0 {
		w.line(indent, "- {}")
		return
	}
	start := w.out.Len()
	w.fields(indent+2, fields, parts)
	text := w.out.String()
	before, first := text[:start], text[start:]
	if strings.HasPrefix(first, "{{") {
		panic("the first field of an element is there under a condition: " + first)
	}
	w.out.Reset()
	w.out.WriteString(before + strings.Repeat(" ", indent) + "- " + first[indent+2:])
}

// loop returns the loop that writes an element of a list, or "".
func (w *templater) loop(list string, element any) string {
	for _, e := range w.expressions {
		if e.in == list && strings.Contains(textOf(element), e.standIn) {
			return e.each
		}
	}
	return ""
}

func textOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// scalar returns a value as YAML, with expressions for the stand-ins.
func (w *templater) scalar(value any) string {
	text, ok := value.(string)
	if !ok {
		text = fmt.Sprint(value)
		for _, e := range w.expressions {
			if e.standIn == text {
				return "{{ " + e.text + " }}"
			}
		}
		return text
	}
	format, args := text, ""
	for _, e := range w.expressions {
		if args == "" && strings.Contains(format, e.standIn) {
			format, args = strings.Replace(format, e.standIn, "%s", 1), e.text
		}
	}
	switch {
	case format == "%s":
		return "{{ " + args + " | quote }}"
	case args != "":
		return fmt.Sprintf("{{ printf %q (%s) | quote }}", format, args)
	}
	quoted, err := yaml.Marshal(text)
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(string(quoted), "\n")
}
