package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"lapse/correlate/model"
	"lapse/hint"
)

var jsonFormat = Format{Name: "json", Doc: "all that was judged: timeline.json", Ext: "json", Write: judgedBy(JSON), Diff: diffJSON}

// JSON writes the timeline as JSON: exactly what timeline.json holds, described by [Schema]. It is
// laid out for people and for line-based tools: one failure, event or series to a line.
func JSON(w io.Writer, tl *model.Timeline, _ Options) error {
	var compact bytes.Buffer
	encoder := json.NewEncoder(&compact)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tl); err != nil {
		return fmt.Errorf("encode timeline: %w", err)
	}
	_, err := w.Write(layout(compact.Bytes()))
	return err
}

// ReadJSON reads what [JSON] wrote. Fields it does not know are left out; another schema version is an error.
func ReadJSON(r io.Reader) (*model.Timeline, error) {
	text, err := io.ReadAll(r)
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

// layout breaks compact JSON into lines: a value that fits stands on one line, and so do lists of
// numbers and the entries of lists, however long.
func layout(compact []byte) []byte {
	l := &layouter{in: bytes.TrimSpace(compact)}
	l.value("", false)
	l.out.WriteByte('\n')
	return l.out.Bytes()
}

// A layouter copies valid compact JSON, adding blanks only.
type layouter struct {
	in  []byte
	out bytes.Buffer
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
		l.out.WriteString("\n" + indent + "  ")
		if closing == '}' {
			l.copy(valueSize(l.in) + 1)
			l.out.WriteByte(' ')
		}
		l.value(indent+"  ", closing == ']')
		if l.in[0] == ',' {
			l.copy(1)
		}
	}
	l.out.WriteString("\n" + indent)
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

func (l *layouter) copy(n int) {
	l.out.Write(l.in[:n])
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
		l.out.WriteByte(c)
		switch {
		case quoted && c == '\\':
			i++
			l.out.WriteByte(value[i])
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ':' || c == ','):
			l.out.WriteByte(' ')
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
