package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Print writes a document. One without a headline begins with its first section, at the screen's edge.
func (p *Page) Print(d Document) {
	p.margin = 0
	if d.Headline != "" {
		p.margin = 1
		p.head(d)
	}
	for _, s := range d.Sections {
		if len(s.Blocks) == 0 {
			continue
		}
		if !s.Tight && p.Len() > 0 {
			p.WriteByte('\n')
		}
		p.section(s)
	}
}

// head writes the result, and what was found.
func (p *Page) head(d Document) {
	lead := []Span{{" ", Normal}, p.Span(d.Badge, d.Tone), {"  ", Normal}}
	indent := []Span{blanks(width(lead))}
	p.paragraph(lead, d.Headline, Bold)
	p.paragraph(indent, d.Extent, Normal)
	for _, caveat := range d.Caveats {
		p.paragraph(indent, caveat, Yellow)
	}
}

// section writes a section. One that begins with a paragraph has it in the line of its title.
func (p *Page) section(s Section) {
	indent := p.margin
	if s.Title != "" {
		indent = cmp.Or(s.Column, p.margin+2)
	}
	blocks := s.Blocks
	title := []Span{blanks(p.margin), p.Span(strings.ToUpper(s.Title), Bold)}
	first, ok := blocks[0].(Note)
	switch {
	case s.Title == "":
	case ok && first.Label == "" && s.Remark == "" && s.Column == 0:
		p.note(append(title, blanks(2)), first, indent)
		blocks = blocks[1:]
	default:
		gap := 2
		if s.Column > 0 {
			gap = max(1, s.Column-width(title))
		}
		p.Line(append(title, blanks(gap), p.Span(s.Remark, Dim))...)
	}
	p.blocks(blocks, indent)
}

func (p *Page) blocks(blocks []Block, indent int) {
	for _, b := range blocks {
		switch b := b.(type) {
		case Note:
			lead := []Span{blanks(indent)}
			if b.Label != "" {
				lead = append(lead, p.Span(b.Label, Dim), blanks(2))
			}
			p.note(lead, b, indent)
		case Table:
			p.table(b, indent)
		case Fact:
			p.fact(b, indent)
		case Code:
			for line := range strings.SplitSeq(string(b), "\n") {
				p.WriteString(strings.Repeat(" ", indent) + p.Say(line) + "\n")
			}
		case Drawing:
			b(p)
		}
	}
}

// factWidth is the room for the word of a fact.
const factWidth = 6

// fact writes what stands beside a word, all of it at one indent.
func (p *Page) fact(f Fact, indent int) {
	beside := &Page{Screen: p.Screen}
	beside.Width = max(p.Width-indent-factWidth, 10)
	beside.blocks(f.Blocks, 0)
	label := fmt.Sprintf("%-*s", factWidth, strings.ToUpper(f.Label))
	for line := range strings.Lines(beside.String()) {
		p.WriteString(strings.Repeat(" ", indent))
		p.paint(p.Say(label), Bold)
		p.WriteString(line)
		label = strings.Repeat(" ", factWidth)
	}
}

// note writes a paragraph behind a lead, and its details below.
func (p *Page) note(lead []Span, n Note, indent int) {
	if n.Verbatim { // not cut off: it is there to be copied
		fmt.Fprint(p, strings.TrimRight(plainText(lead)+p.Say(n.Text)+"   "+p.Say(n.After), " ")+"\n")
	} else {
		p.paragraph(lead, strings.TrimSpace(n.Text+" "+n.After), n.Tone)
	}
	p.details(n.Details, indent+3)
}

func plainText(spans []Span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return b.String()
}

// details writes labelled paragraphs below what they belong to. Labels are of one width, and instants of neighbours
// flush right.
func (p *Page) details(notes []Note, indent int) {
	widest := map[string]int{} // of the instants behind each label that has some
	labels := len("cause")
	for _, n := range notes {
		labels = max(labels, len(n.Label))
		if n.At != "" {
			widest[n.Label] = max(widest[n.Label], Columns(p.Say(n.At)))
		}
	}
	last := ""
	for _, n := range notes {
		room, timed := widest[n.Label]
		label := n.Label
		if timed && label == last {
			label = ""
		}
		last = n.Label
		lead := []Span{blanks(indent), p.Span(fmt.Sprintf("%-*s", labels+2, label), Dim)}
		if timed {
			lead = append(lead, pad(p.Span(n.At, Cyan), room, true), Span{"  ", Normal})
		}
		p.note(lead, n, indent)
	}
}

// table writes as many columns as there is room for. What has none stands below its row.
func (p *Page) table(t Table, indent int) {
	shown := make([]int, len(t.Columns))
	for i := range shown {
		shown[i] = i
	}
	lines := p.aligned(t, shown, indent)
	var below []int
	for !fits(p, lines) {
		i := len(shown) - 1
		for i >= 0 && t.Columns[shown[i]].Label == "" {
			i--
		}
		if i < 0 {
			break
		}
		below = slices.Insert(below, 0, shown[i])
		shown = slices.Delete(shown, i, i+1)
		lines = p.aligned(t, shown, indent)
	}
	if !t.Headless {
		p.Line(lines[0]...)
	}
	for i, row := range t.Rows {
		p.Line(lines[i+1]...)
		var notes []Note
		for _, c := range below {
			if cell, column := row.Cells[c], t.Columns[c]; cell.Text != "" {
				notes = append(notes, Note{Label: column.Label, Text: column.Lead + cell.Text, Tone: cell.Tone})
			}
		}
		p.details(append(notes, row.Notes...), indent+3)
	}
	if t.More != "" {
		p.Line(blanks(indent), p.Span(t.More, Dim))
	}
}

// aligned are the titles and the rows of a table, of some of its columns.
func (p *Page) aligned(t Table, shown []int, indent int) [][]Span {
	titles := make([]Span, len(shown))
	var right []int
	for i, c := range shown {
		title := t.Columns[c].Title
		if !t.Columns[c].Verbatim {
			title = strings.ToUpper(title)
		}
		titles[i] = Span{title, Dim}
		if t.Headless {
			titles[i].Text = ""
		}
		if t.Columns[c].Right {
			right = append(right, i)
		}
	}
	cells := [][]Span{titles}
	for _, row := range t.Rows {
		line := make([]Span, len(shown))
		for i, c := range shown {
			line[i] = p.Span(row.Cells[c].Text, row.Cells[c].Tone)
		}
		cells = append(cells, line)
	}
	lines := align(cells, right...)
	for i, line := range lines {
		lines[i] = slices.Insert(line, 0, blanks(indent))
	}
	return lines
}

// fits reports whether lines are no wider than the screen.
func fits(p *Page, lines [][]Span) bool {
	return !slices.ContainsFunc(lines, func(line []Span) bool { return width(trimRight(line)) > p.Width })
}
