package document

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// What a comment shows at most. With text of any length in every place, maxMarkdown still holds.
const (
	maxMarkdown = 58_000 // bytes; GitHub refuses a comment of more than 65536 characters
	maxRows     = 20     // of a table
	maxText     = 300    // columns of a text from outside
)

// Markdown is the document as a comment on a pull request, of less than 60 KB. Text from outside (names, events, the
// command, errors) stands there as it is, and no reader makes markup of it.
func (d Document) Markdown() []byte {
	m := &markdown{whole: cmp.Or(d.Whole, "timeline.json")}
	m.document(d)
	return m.Bytes()
}

func (m *markdown) document(d Document) {
	m.line("## " + d.Badge + ": " + prose(d.Headline))
	if d.Extent != "" {
		m.paragraph(prose(d.Extent))
	}
	for _, caveat := range d.Caveats {
		m.paragraph(prose(caveat))
	}
	for _, s := range d.Sections {
		m.section(s)
	}
}

// section writes what is more than a drawing.
func (m *markdown) section(s Section) {
	blocks := slices.DeleteFunc(slices.Clone(s.Blocks), isDrawing)
	if len(blocks) == 0 {
		return
	}
	if s.Title != "" {
		m.heading(strings.TrimSuffix(capital(s.Title)+": "+s.Remark, ": "))
	}
	labelled := false // in a list
	for _, b := range blocks {
		switch b := b.(type) {
		case Note:
			if b.Label == "" {
				m.paragraph(noteText(b))
				m.list("", b.Details)
				labelled = false
				continue
			}
			if !labelled {
				m.line("")
			}
			m.list("", []Note{b})
			labelled = true
		case Table:
			m.table(b)
			labelled = false
		case Fact:
			m.fact(b)
			labelled = false
		case Code:
			m.fenced(string(b))
			labelled = false
		}
	}
}

// fact writes a word before what stands beside it.
func (m *markdown) fact(f Fact) {
	label := "**" + prose(capital(strings.ToLower(f.Label))) + ":** "
	for _, b := range f.Blocks {
		switch b := b.(type) {
		case Note:
			switch {
			case b.Label == "":
				m.paragraph(label + noteText(b))
				label = ""
				continue
			case label != "":
				m.paragraph(strings.TrimSpace(label) + "\n")
			}
			m.list("", []Note{b})
		case Table:
			if label != "" {
				m.paragraph(strings.TrimSpace(label))
			}
			m.table(b)
		case Code:
			m.fenced(string(b))
		}
		label = ""
	}
}

// fenced writes lines as a block of code. A fence in it would end the block: then it is left out.
func (m *markdown) fenced(text string) {
	if strings.Contains(text, "```") {
		return
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Clean(line)
	}
	m.line("\n```\n" + strings.Join(lines, "\n") + "\n```")
}

func isDrawing(b Block) bool {
	_, is := b.(Drawing)
	return is
}

func noteText(n Note) string {
	text := prose(n.Text)
	if n.Verbatim {
		text = code(n.Text)
	}
	return strings.TrimSpace(prose(n.At) + " " + text + " " + prose(n.After))
}

// list writes notes as items of a list, and their details as lists in it.
func (m *markdown) list(indent string, notes []Note) {
	for _, n := range notes {
		m.line(indent + "- **" + prose(capital(n.Label)) + ":** " + noteText(n))
		m.list(indent+"  ", n.Details)
	}
}

// A markdown document grows line by line; every line is whole in itself. What would go beyond maxMarkdown is left
// out, and the document says so.
type markdown struct {
	bytes.Buffer
	full  bool
	whole string // where all of it is
}

func (m *markdown) line(text string) {
	if m.full {
		return
	}
	if m.full = m.Len()+len(text) > maxMarkdown; m.full {
		text = "\n_The rest does not fit here: see " + m.whole + "._"
	}
	m.WriteString(text + "\n")
}

func (m *markdown) paragraph(text string) { m.line("\n" + text) }

func (m *markdown) heading(title string) { m.line("\n### " + title) }

// table writes the rows, the first maxRows of them, and below the table what is said of them.
func (m *markdown) table(t Table) {
	var titles []string
	for _, c := range t.Columns {
		titles = append(titles, cmp.Or(c.Title, " "))
	}
	m.line("\n| " + strings.Join(titles, " | ") + " |\n" + strings.Repeat("|---", len(titles)) + "|")
	rows := t.Rows[:min(len(t.Rows), maxRows)]
	noted := false
	for _, row := range rows {
		var cells []string
		for _, c := range row.Cells {
			cells = append(cells, cellText(c))
		}
		m.line("| " + strings.Join(cells, " | ") + " |")
		noted = noted || len(row.Notes) > 0
	}
	if noted {
		m.line("")
	}
	for _, row := range rows {
		for _, n := range row.Notes {
			n.Label = t.Item + " " + row.Cells[0].Text + ", " + n.Label
			m.list("", []Note{n})
		}
	}
	if more := len(t.Rows) - len(rows); more > 0 {
		m.paragraph(fmt.Sprintf("and %d more: see %s", more, m.whole))
	}
	if t.More != "" {
		m.paragraph(prose(t.More))
	}
}

func cellText(c Cell) string {
	text := strings.ReplaceAll(cmp.Or(c.Exact, c.Text), "|", "¦") // a bar ends the cell
	if c.Verbatim && text != "" {
		return code(text)
	}
	return prose(text)
}

// code is text as a code span, in which no reader looks for markup, mentions, references or links.
// Its fence is longer than any in the text.
// https://spec.commonmark.org/0.31.2/#code-spans
func code(text string) string {
	text = Cut(strings.TrimSpace(Clean(text)), maxText, "…")
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
	for word := range strings.FieldsSeq(Cut(Clean(text), maxText, "…")) {
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
