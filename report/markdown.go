package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"lapse/correlate/model"
)

// What a comment shows at most. With text of any length in every place, maxMarkdown still holds.
const (
	maxMarkdown = 58_000 // bytes; GitHub refuses a comment of more than 65536 characters
	maxRows     = 20     // of a table
	maxText     = 300    // columns of a text from outside
)

var markdownFormat = Format{Name: "markdown", Doc: "a summary for a pull request or a pipeline's step, at most 60 KB", Ext: "md", Write: judgedBy(Markdown), Diff: diffMarkdown}

// Markdown renders the summary for a comment on a pull request or for the summary of a pipeline's
// step: the verdict first, and never more than 60 KB, whatever the run.
//
// Text from outside (names, events, the command, errors) stands there as it is and does nothing: see [prose].
func Markdown(w io.Writer, tl *model.Timeline, opts Options) error {
	var m markdown
	m.document(summaryOf(tl, opts, documentNames))
	_, err := w.Write(m.Bytes())
	return err
}

func (m *markdown) document(d document) {
	m.line("## " + d.badge + ": " + prose(d.headline))
	for _, caveat := range d.caveats {
		m.paragraph(prose(caveat))
	}
	if d.measured != "" {
		m.paragraph("Lapse: " + prose(d.measured))
		m.paragraph("Result: " + prose(d.trust))
	}
	for _, s := range d.sections {
		m.section(s)
	}
}

// section writes what is more than a drawing.
func (m *markdown) section(s section) {
	blocks := slices.DeleteFunc(slices.Clone(s.blocks), isDrawing)
	if len(blocks) == 0 {
		return
	}
	m.heading(strings.TrimSuffix(capital(s.title)+": "+s.remark, ": "))
	labelled := false // in a list
	for _, b := range blocks {
		switch b := b.(type) {
		case note:
			if b.label == "" {
				m.paragraph(noteText(b))
				m.list("", b.details)
				labelled = false
				continue
			}
			if !labelled {
				m.line("")
			}
			m.list("", []note{b})
			labelled = true
		case table:
			m.table(b)
			labelled = false
		}
	}
}

func isDrawing(b block) bool {
	_, is := b.(drawing)
	return is
}

func noteText(n note) string {
	text := prose(n.text)
	if n.verbatim {
		text = code(n.text)
	}
	return strings.TrimSpace(prose(n.at) + " " + text + " " + prose(n.after))
}

// list writes notes as items of a list, and their details as lists in it.
func (m *markdown) list(indent string, notes []note) {
	for _, n := range notes {
		m.line(indent + "- **" + prose(capital(n.label)) + ":** " + noteText(n))
		m.list(indent+"  ", n.details)
	}
}

// A markdown document grows line by line; every line is whole in itself. What would go beyond maxMarkdown is left out, and
// the document says so.
type markdown struct {
	bytes.Buffer
	full bool
}

func (m *markdown) line(text string) {
	if m.full {
		return
	}
	if m.full = m.Len()+len(text) > maxMarkdown; m.full {
		text = "\n_The rest does not fit here: see timeline.json._"
	}
	m.WriteString(text + "\n")
}

func (m *markdown) paragraph(text string) { m.line("\n" + text) }

func (m *markdown) heading(title string) { m.line("\n### " + title) }

// table writes the rows, the first maxRows of them, and below the table what is said of them.
func (m *markdown) table(t table) {
	var titles []string
	for _, c := range t.columns {
		titles = append(titles, cmp.Or(c.title, " "))
	}
	m.line("\n| " + strings.Join(titles, " | ") + " |\n" + strings.Repeat("|---", len(titles)) + "|")
	rows := t.rows[:min(len(t.rows), maxRows)]
	noted := false
	for _, row := range rows {
		var cells []string
		for _, c := range row.cells {
			cells = append(cells, cellText(c))
		}
		m.line("| " + strings.Join(cells, " | ") + " |")
		noted = noted || len(row.notes) > 0
	}
	if noted {
		m.line("")
	}
	for _, row := range rows {
		for _, n := range row.notes {
			n.label = t.item + " " + row.cells[0].text + ", " + n.label
			m.list("", []note{n})
		}
	}
	if more := len(t.rows) - len(rows); more > 0 {
		m.paragraph(fmt.Sprintf("and %d more: see timeline.json", more))
	}
	if t.more != "" {
		m.paragraph(prose(t.more))
	}
}

func cellText(c cell) string {
	text := strings.ReplaceAll(cmp.Or(c.exact, c.text), "|", "¦") // a bar ends the cell
	if c.verbatim && text != "" {
		return code(text)
	}
	return prose(text)
}

// code is text as a code span, in which no reader looks for markup, mentions, references or links.
// Its fence is longer than any in the text.
// https://spec.commonmark.org/0.31.2/#code-spans
func code(text string) string {
	text = cut(strings.TrimSpace(clean(text)), maxText, "…")
	if text == "" {
		return "(empty)"
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// prose is a sentence with text from outside in it. Words of letters and digits stay as they are; any other word, which
// could be markup, a mention (@name), a reference (#1), a link or an emoji, becomes a code span.
func prose(text string) string {
	var words []string
	for word := range strings.FieldsSeq(cut(clean(text), maxText, "…")) {
		if !harmless(word) {
			word = code(word)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// harmless reports whether a word within a line means nothing to a reader of Markdown.
func harmless(word string) bool {
	word = strings.TrimRight(strings.TrimLeft(word, "("), ".,;:)%…")
	lower := strings.ToLower(word)
	switch {
	case word == "<", timeOfDay.MatchString(word): // no tag begins with a blank
		return true
	case strings.Contains(lower, "www."), strings.Contains(lower, "gh-"):
		return false // a link, and a reference to an issue
	}
	inner := false // the character before was a letter or a digit
	for i, r := range word {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r):
			inner = true
			continue
		case strings.ContainsRune("-.,;%/'=+()±≥≤≈×÷−·…→✓✗?–", r):
		case r == '_' && inner && i+1 < len(word) && isWord(word[i+1]):
			continue // within a word it emphasizes nothing
		default:
			return false
		}
		inner = false
	}
	return true
}

var timeOfDay = regexp.MustCompile(`^\d\d:\d\d:\d\d(\.\d+)?$`)

func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
