package document

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
)

// An htmlText is a document that grows by elements. All text in it is escaped.
type htmlText struct{ strings.Builder }

func (h *htmlText) element(tag, text string) {
	fmt.Fprintf(h, "<%s>%s</%s>\n", tag, html.EscapeString(Clean(text)), tag)
}

// HTML is the document as elements of a page's body.
func (d Document) HTML() string {
	h := new(htmlText)
	h.document(d)
	return h.String()
}

func (h *htmlText) document(d Document) {
	h.element("h1", d.Badge+": "+d.Headline)
	for _, text := range append([]string{d.Extent}, d.Caveats...) {
		if text != "" {
			h.element("p", text)
		}
	}
	for _, s := range d.Sections {
		blocks := slices.DeleteFunc(slices.Clone(s.Blocks), isDrawing)
		if len(blocks) == 0 {
			continue
		}
		if s.Title != "" {
			h.element("h2", strings.TrimSuffix(capital(s.Title)+": "+s.Remark, ": "))
		}
		h.blocks(blocks)
	}
}

func (h *htmlText) blocks(blocks []Block) {
	for _, b := range blocks {
		switch b := b.(type) {
		case Note:
			h.note("p", b)
		case Table:
			h.table(b)
		case Fact:
			h.element("h3", capital(strings.ToLower(b.Label)))
			h.blocks(b.Blocks)
		case Code:
			lines := strings.Split(string(b), "\n")
			for i, line := range lines {
				lines[i] = html.EscapeString(Clean(line))
			}
			h.WriteString("<pre>" + strings.Join(lines, "\n") + "</pre>\n")
		}
	}
}

func (h *htmlText) note(tag string, n Note) {
	text := strings.Join(strings.Fields(n.At+" "+n.Text+" "+n.After), " ")
	if n.Label != "" {
		text = capital(strings.TrimSpace(n.Label)) + ": " + text
	}
	h.element(tag, text)
	h.list(n.Details)
}

func (h *htmlText) list(notes []Note) {
	if len(notes) == 0 {
		return
	}
	h.WriteString("<ul>\n")
	for _, n := range notes {
		h.note("li", n)
	}
	h.WriteString("</ul>\n")
}

func (h *htmlText) table(t Table) {
	h.WriteString("<table>\n<tr>")
	for _, c := range t.Columns {
		h.element("th", c.Title)
	}
	h.WriteString("</tr>\n")
	var notes []Note
	for _, row := range t.Rows {
		h.WriteString("<tr>")
		for _, c := range row.Cells {
			h.element("td", cmp.Or(c.Exact, c.Text))
		}
		h.WriteString("</tr>\n")
		for _, n := range row.Notes {
			n.Label = t.Item + " " + row.Cells[0].Text + ", " + n.Label
			notes = append(notes, n)
		}
	}
	h.WriteString("</table>\n")
	h.list(notes)
	if t.More != "" {
		h.element("p", t.More)
	}
}
