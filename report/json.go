package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"lapse/correlate/model"
	"lapse/hint"
	"lapse/hint/input"
)

var jsonFormat = Format{Name: "json", Doc: "all that was judged: timeline.json", Ext: "json", Write: judgedBy(JSON), Diff: diffJSON}

// JSON writes the timeline as JSON: exactly what timeline.json holds, described by [Schema]. It is
// laid out for people and for line-based tools: one failure, event or series to a line.
//
// It is written part by part: a long run of a large Service makes some dozens of MB, and the agent has little memory
// beside what it keeps.
func JSON(w io.Writer, tl *model.Timeline, _ Options) error {
	out := bufio.NewWriterSize(w, 1<<16)
	p := partWriter{out: out}
	p.object("", reflect.ValueOf(tl).Elem())
	_, _ = out.WriteString("\n") // Flush returns its error
	if p.err != nil {
		return fmt.Errorf("encode timeline: %w", p.err)
	}
	return out.Flush()
}

// A partWriter writes a value as [layouter] lays it out. It takes a large one apart, so that only a part of it is in
// memory as JSON at a time.
type partWriter struct {
	out  *bufio.Writer
	part bytes.Buffer
	err  error // the first that encoding met
}

// manyEntries is a length from which on a list of objects, or of a series' slots, is too long for one line.
const manyEntries = 100

func (p *partWriter) value(indent string, entry bool, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && v.Len() >= manyEntries:
		p.list(indent, v)
	case v.Type() == reflect.TypeFor[model.Buckets]():
		p.buckets(indent, v.Interface().(model.Buckets))
	default:
		p.whole(indent, entry, v.Interface())
	}
}

func manySlots(b model.Buckets) bool {
	slots := 0
	for _, s := range b.All() {
		if slots += len(s.Sent); slots >= manyEntries {
			return true
		}
	}
	return false
}

// object writes a struct by its fields' tags, as encoding/json does.
func (p *partWriter) object(indent string, v reflect.Value) {
	before := "{"
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if strings.Contains(options, "omitzero") && v.Field(i).IsZero() {
			continue
		}
		p.text(before + "\n" + indent + "  " + strconv.Quote(name) + ": ")
		p.value(indent+"  ", false, v.Field(i))
		before = ","
	}
	p.text("\n" + indent + "}")
}

func (p *partWriter) list(indent string, v reflect.Value) {
	before := "["
	for i := range v.Len() {
		p.text(before + "\n" + indent + "  ")
		p.value(indent+"  ", true, v.Index(i))
		before = ","
	}
	p.text("\n" + indent + "]")
}

// buckets writes one series after the other, where they are large.
func (p *partWriter) buckets(indent string, b model.Buckets) {
	if !manySlots(b) {
		p.whole(indent, false, b.Kept())
		return
	}
	p.text("{\n" + indent + `  "width": `)
	p.whole(indent, false, b.Width)
	p.text(",\n" + indent + `  "targets": `)
	before := "{"
	for name, series := range b.All() {
		p.text(before + "\n" + indent + "    ")
		p.whole("", true, name)
		p.text(": ")
		p.whole(indent+"    ", false, series)
		before = ","
	}
	p.text("\n" + indent + "  }\n" + indent + "}")
}

// whole writes a value that is not taken apart.
func (p *partWriter) whole(indent string, entry bool, value any) {
	p.part.Reset()
	encoder := json.NewEncoder(&p.part)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil && p.err == nil {
		p.err = err
	}
	l := layouter{in: noCommands(bytes.TrimSpace(p.part.Bytes())), out: p.out}
	if len(l.in) > 0 {
		l.value(indent, entry)
	}
}

// noCommands spells JSON in another way where a CI runner would take it for a command, which "##[" is anywhere in a
// line of output: it stays the same value.
func noCommands(text []byte) []byte {
	if !bytes.Contains(text, []byte("##")) {
		return text
	}
	return runnerCommand.ReplaceAll(text, []byte(`#\u0023$1`))
}

var runnerCommand = regexp.MustCompile(`##([A-Za-z]*\[)`)

func (p *partWriter) text(s string) { _, _ = p.out.WriteString(s) }

// ReadJSON reads what [JSON] wrote. Fields it does not know are left out; another schema version is an error.
func ReadJSON(r io.Reader) (*model.Timeline, error) {
	text, err := input.All(r, "timeline.json", input.Timeline)
	if err != nil {
		return nil, fmt.Errorf("read timeline: %w", err)
	}
	if err := checkSchema(text); err != nil {
		return nil, err
	}
	tl := new(model.Timeline)
	if err := json.Unmarshal(text, tl); err != nil {
		return nil, fmt.Errorf("read timeline: %w", err)
	}
	return tl, nil
}

// checkSchema refuses a timeline of another schema version before its fields are read.
func checkSchema(text []byte) error {
	var head struct {
		SchemaVersion int
		Tool          struct{ Version string }
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("read timeline: %w", err)
	}
	switch head.SchemaVersion {
	case model.SchemaVersion:
		return nil
	case 0:
		return hint.Errorf("name a timeline.json that Lapse wrote", "read timeline: not a timeline of Lapse: it has no schemaVersion")
	}
	return hint.Errorf("use the version of Lapse that wrote it ("+head.Tool.Version+")",
		"read timeline: schema version %d, but this Lapse reads %d", head.SchemaVersion, model.SchemaVersion)
}

// lineWidth is how long a JSON value may be and still stand on one line.
const lineWidth = 140

// A layouter breaks compact JSON into lines: a value that fits stands on one line, and so do lists of
// numbers and the entries of lists, however long. It adds blanks only.
type layouter struct {
	in  []byte
	out *bufio.Writer // which keeps its first error
}

// value copies the next value, which begins a line or follows a key at the given indent.
func (l *layouter) value(indent string, entry bool) {
	size := valueSize(l.in)
	value := l.in[:size]
	if len(value) < 2 || value[0] != '{' && value[0] != '[' || size <= lineWidth || onOneLine(value, entry) {
		l.inline(size)
		return
	}
	closing := value[0] + 2 // '[' and ']', '{' and '}' are two apart
	l.copy(1)
	for l.in[0] != closing {
		l.text("\n" + indent + "  ")
		if closing == '}' {
			l.copy(valueSize(l.in) + 1)
			l.text(" ")
		}
		l.value(indent+"  ", closing == ']')
		if l.in[0] == ',' {
			l.copy(1)
		}
	}
	l.text("\n" + indent)
	l.copy(1)
}

// onOneLine reports whether a long value stands on one line all the same: a list of numbers or of
// such lists, or an entry of a list that holds no lists itself (a failure, an event).
func onOneLine(value []byte, entry bool) bool {
	if value[0] == '[' {
		return !bytes.ContainsAny(value, `{"`)
	}
	return entry && bytes.IndexByte(value, '[') < 0
}

func (l *layouter) text(s string) { _, _ = l.out.WriteString(s) }

func (l *layouter) copy(n int) {
	_, _ = l.out.Write(l.in[:n])
	l.in = l.in[n:]
}

// inline copies n bytes, with a blank after each comma and colon; lists of numbers stay dense.
func (l *layouter) inline(n int) {
	value := l.in[:n]
	if onOneLine(value, false) {
		l.copy(n)
		return
	}
	quoted := false
	for i := 0; i < n; i++ {
		c := value[i]
		_ = l.out.WriteByte(c)
		switch {
		case quoted && c == '\\':
			i++
			_ = l.out.WriteByte(value[i])
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ':' || c == ','):
			_ = l.out.WriteByte(' ')
		}
	}
	l.in = l.in[n:]
}

// valueSize is the length of the JSON value (or key) that in begins with.
func valueSize(in []byte) int {
	quoted, depth := false, 0
	for i := 0; i < len(in); i++ {
		switch c := in[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return i // the end of what holds it
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case c == ',' && depth == 0:
			return i
		}
	}
	return len(in)
}
