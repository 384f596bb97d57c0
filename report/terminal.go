package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lapse/correlate/model"
)

var tableFormat = Format{Name: "table", Doc: "a summary for a terminal", Ext: "txt", Write: judgedBy(Table), Diff: diffTable}

// Table renders the final summary for a terminal: the verdict, and below it what it rests on.
func Table(w io.Writer, tl *model.Timeline, opts Options) error {
	p := newPage(opts)
	p.document(summaryOf(tl, p.Options, p.nameWidth()))
	_, err := p.WriteTo(w)
	return err
}

// nameWidth is how much of the screen a target's name gets.
func (p *page) nameWidth() int { return max(12, p.Width/4) }

func (p *page) document(d document) {
	p.head(d)
	for _, s := range d.sections {
		if !s.tight {
			p.WriteByte('\n')
		}
		p.section(s)
	}
}

// head writes the result, what was found, whether the measurement can be trusted, and what was measured.
func (p *page) head(d document) {
	lead := []span{{" ", normal}, p.span(d.badge, d.tone), {"  ", normal}}
	headline, trust := p.say(d.headline), p.say(d.trust)
	gap := p.Width - width(lead) - columns(headline) - columns(trust)
	indent := []span{{strings.Repeat(" ", width(lead)), normal}}
	if gap >= 3 {
		p.line(append(lead, span{headline, bold}, span{strings.Repeat(" ", gap), normal}, span{trust, normal})...)
	} else {
		p.paragraph(lead, headline, bold)
		p.paragraph(indent, trust, normal)
	}
	for _, caveat := range d.caveats {
		p.paragraph(indent, caveat, yellow)
	}
	p.paragraph(indent, d.measured, dim)
}

// section writes a section. One that begins with a paragraph has it in the line of its title.
func (p *page) section(s section) {
	blocks, title := s.blocks, strings.ToUpper(s.title)
	if first, ok := blocks[0].(note); ok && first.label == "" && s.remark == "" {
		p.note([]span{{" ", normal}, p.span(title, bold), {"  ", normal}}, first)
		blocks = blocks[1:]
	} else {
		p.heading(title, s.remark)
	}
	for _, b := range blocks {
		switch b := b.(type) {
		case note:
			lead := []span{{"   ", normal}}
			if b.label != "" {
				lead = append(lead, p.span(b.label, dim), span{"  ", normal})
			}
			p.note(lead, b)
		case table:
			p.table(b)
		case drawing:
			b(p)
		}
	}
}

// note writes a paragraph behind a lead, and its details below.
func (p *page) note(lead []span, n note) {
	if n.verbatim { // not cut off: it is there to be copied
		fmt.Fprint(p, strings.TrimRight(plainText(lead)+p.say(n.text)+"   "+p.say(n.after), " ")+"\n")
	} else {
		p.paragraph(lead, strings.TrimSpace(n.text+" "+n.after), n.tone)
	}
	p.details(n.details)
}

func plainText(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.text)
	}
	return b.String()
}

// details writes labelled paragraphs below what they belong to. Labels are of one width, and instants of neighbours flush right.
func (p *page) details(notes []note) {
	widest := map[string]int{} // of the instants behind each label that has some
	labels := len("cause")
	for _, n := range notes {
		labels = max(labels, len(n.label))
		if n.at != "" {
			widest[n.label] = max(widest[n.label], columns(p.say(n.at)))
		}
	}
	last := ""
	for _, n := range notes {
		room, timed := widest[n.label]
		label := n.label
		if timed && label == last {
			label = ""
		}
		last = n.label
		lead := []span{{"      ", normal}, p.span(fmt.Sprintf("%-*s", labels+2, label), dim)}
		if timed {
			lead = append(lead, pad(p.span(n.at, cyan), room, true), span{"  ", normal})
		}
		p.note(lead, n)
	}
}

// table writes as many columns as there is room for. What has none stands below its row.
func (p *page) table(t table) {
	shown := make([]int, len(t.columns))
	for i := range shown {
		shown[i] = i
	}
	lines := p.aligned(t, shown)
	var below []int
	for !fits(p, lines) {
		i := len(shown) - 1
		for i >= 0 && t.columns[shown[i]].label == "" {
			i--
		}
		if i < 0 {
			break
		}
		below = slices.Insert(below, 0, shown[i])
		shown = slices.Delete(shown, i, i+1)
		lines = p.aligned(t, shown)
	}
	if !t.headless {
		p.line(lines[0]...)
	}
	for i, row := range t.rows {
		p.line(lines[i+1]...)
		var notes []note
		for _, c := range below {
			if cell, column := row.cells[c], t.columns[c]; cell.text != "" {
				notes = append(notes, note{label: column.label, text: column.lead + cell.text, tone: cell.tone})
			}
		}
		p.details(append(notes, row.notes...))
	}
	if t.more != "" {
		p.line(p.span("   "+t.more, dim))
	}
}

// aligned are the titles and the rows of a table, of some of its columns.
func (p *page) aligned(t table, shown []int) [][]span {
	titles := make([]span, len(shown))
	var right []int
	for i, c := range shown {
		title := t.columns[c].title
		if !t.columns[c].verbatim {
			title = strings.ToUpper(title)
		}
		titles[i] = span{title, dim}
		if t.headless {
			titles[i].text = ""
		}
		if t.columns[c].right {
			right = append(right, i)
		}
	}
	cells := [][]span{titles}
	for _, row := range t.rows {
		line := make([]span, len(shown))
		for i, c := range shown {
			line[i] = p.span(row.cells[c].text, row.cells[c].tone)
		}
		cells = append(cells, line)
	}
	lines := align(cells, right...)
	for i, line := range lines {
		lines[i] = slices.Insert(line, 0, span{"   ", normal})
	}
	return lines
}

// fits reports whether lines are no wider than the screen.
func fits(p *page, lines [][]span) bool {
	return !slices.ContainsFunc(lines, func(line []span) bool { return width(trimRight(line)) > p.Width })
}
