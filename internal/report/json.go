package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/hint"
	"lapse/internal/hint/input"
	"lapse/internal/report/document"
)

var jsonFormat = Format{
	Name: "json", Doc: "all that was judged: timeline.json", Ext: "json", Write: judgedBy(JSON), Diff: diffJSON,
}

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
	out         *bufio.Writer
	part, lines bytes.Buffer // a part as JSON, compact and in lines
	split       [][]byte     // these lines
	err         error        // the first that encoding met
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
	p.layOut(document.CleanJSON(bytes.TrimSpace(p.part.Bytes())), indent, entry)
}

// layOut writes compact JSON in lines.
func (p *partWriter) layOut(compact []byte, indent string, entry bool) {
	p.lines.Reset()
	if err := json.Indent(&p.lines, compact, "", ""); err != nil || p.lines.Len() == 0 {
		return // the encoder's error is kept
	}
	p.split = slices.AppendSeq(p.split[:0], bytes.SplitSeq(p.lines.Bytes(), []byte("\n")))
	l := layouter{lines: p.split, out: p.out}
	l.value(indent, entry)
}

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
	if tl.Said.Word == "" { // an older version wrote it
		verdict.Say(tl)
	}
	return tl, nil
}

// checkSchema refuses a timeline of another schema version before its fields are read.
func checkSchema(text []byte) error {
	var head struct {
		SchemaVersion int
		Tool          struct{ Version string }
	}
	err := json.Unmarshal(text, &head)
	if _, isOther := errors.AsType[*json.UnmarshalTypeError](err); isOther { // a list, for example
		head.SchemaVersion = 0
	} else if err != nil {
		return fmt.Errorf("read timeline: %w", err)
	}
	switch head.SchemaVersion {
	case model.SchemaVersion:
		return nil
	case 0:
		return hint.Errorf(
			"name a timeline.json that Lapse wrote", "read timeline: not a timeline of Lapse: it has no schemaVersion",
		)
	}
	return hint.Errorf("use the version of Lapse that wrote it ("+head.Tool.Version+")",
		"read timeline: schema version %d, but this Lapse reads %d", head.SchemaVersion, model.SchemaVersion)
}

// lineWidth is how long a JSON value may be and still stand on one line.
const lineWidth = 140

// A layouter breaks JSON into lines: a value that fits stands on one line, and so do lists of numbers and the entries
// of lists, however long. It adds blanks only. It reads the lines of [json.Indent], in which a bracket that opens ends
// a line and one that closes begins one: no line breaks a string.
type layouter struct {
	lines [][]byte // still to be written; a key stands before its value, and a comma behind it
	out   *bufio.Writer
}

// value writes the next value, the first line of which follows indent.
func (l *layouter) value(indent string, entry bool) {
	n, size := l.extent()
	if size <= lineWidth || onOneLine(l.lines[:n], entry) {
		l.inline(n)
		return
	}
	list := ends(l.lines[0], "[")
	l.inline(1)
	for !closesValue(l.lines[0]) {
		l.text("\n" + indent + "  ")
		l.value(indent+"  ", list)
	}
	l.text("\n" + indent)
	l.inline(1)
}

// extent returns how many lines the next value has, and its length as compact JSON; 0 if it has no parts.
func (l *layouter) extent() (n, size int) {
	var within []bool // for each bracket that is open, whether it is an object's
	for n < len(l.lines) {
		line := l.lines[n]
		n++
		switch {
		case n == 1 && !opensValue(line):
			return 1, 0
		case n == 1:
			size = 1 // without its key
		case closesValue(line):
			size += len(line)
			if within = within[:len(within)-1]; len(within) == 0 {
				return n, size - len(line) + 1 // without its comma
			}
		case within[len(within)-1]:
			size += len(line) - 1 // the blank behind a key
		default:
			size += len(line)
		}
		if opensValue(line) {
			within = append(within, ends(line, "{"))
		}
	}
	return n, size
}

func opensValue(line []byte) bool { return ends(line, "{") || ends(line, "[") }

func closesValue(line []byte) bool { return line[0] == '}' || line[0] == ']' }

func ends(line []byte, with string) bool { return bytes.HasSuffix(line, []byte(with)) }

// onOneLine reports whether a long value stands on one line all the same: a list of numbers or of
// such lists, or an entry of a list that holds no lists itself (a failure, an event).
func onOneLine(lines [][]byte, entry bool) bool {
	if ends(lines[0], "[") {
		return isNumbers(lines)
	}
	return entry && !slices.ContainsFunc(lines, func(line []byte) bool { return bytes.IndexByte(line, '[') >= 0 })
}

// isNumbers reports whether a value is a list of numbers or of such lists.
func isNumbers(lines [][]byte) bool {
	return ends(lines[0], "[") &&
		!slices.ContainsFunc(lines[1:], func(line []byte) bool { return bytes.ContainsAny(line, `{"`) })
}

// inline writes n lines as one, with a blank behind each comma; lists of numbers stay dense.
func (l *layouter) inline(n int) {
	dense := isNumbers(l.lines[:n])
	for i, line := range l.lines[:n] {
		_, _ = l.out.Write(line)
		if !dense && i < n-1 && ends(line, ",") {
			_ = l.out.WriteByte(' ')
		}
	}
	l.lines = l.lines[n:]
}

func (l *layouter) text(s string) { _, _ = l.out.WriteString(s) }
