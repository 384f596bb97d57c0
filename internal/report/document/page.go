package document

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
)

// A Span is a piece of a line in one style.
type Span struct {
	Text  string
	Style Style
}

// Unlimited is the width of what is no screen: lines are as long as they are.
const Unlimited = math.MaxInt32

// A Screen is what a reader's terminal can show.
type Screen struct {
	Color   bool // ANSI colours
	Unicode bool // characters beyond ASCII
	Width   int  // columns; 0 means 80
}

// A Page collects lines for one screen. Text reaches it through [Page.Say], which makes it harmless
// and spells it in the characters the screen has.
type Page struct {
	Screen
	bytes.Buffer
	margin int // blanks before a section's title
}

// NewPage returns an empty page, at least 40 columns wide.
func NewPage(s Screen) *Page {
	s.Width = max(cmp.Or(s.Width, 80), 40)
	return &Page{Screen: s}
}

// Say makes text fit for this screen.
func (p *Page) Say(text string) string {
	text = Clean(text)
	if !p.Unicode {
		text = ascii(text)
	}
	return text
}

// Span is text in a style, fit for this screen.
func (p *Page) Span(text string, s Style) Span { return Span{p.Say(text), s} }

// Ellipsis marks what was cut off.
func (p *Page) Ellipsis() string { return p.Say("…") }

// Line writes spans as one line, cut off at the screen's edge.
func (p *Page) Line(spans ...Span) {
	room := p.Width
	for _, s := range trimRight(spans) {
		text := Cut(s.Text, room, p.Ellipsis())
		room -= Columns(text)
		p.paint(text, s.Style)
		if text != s.Text {
			break
		}
	}
	p.WriteByte('\n')
}

func (p *Page) paint(text string, s Style) {
	if !p.Color || s == Normal || strings.TrimSpace(text) == "" {
		p.WriteString(text)
		return
	}
	p.WriteString("\x1b[" + string(s) + "m" + text + "\x1b[0m")
}

// trimRight drops blanks at the end of a line.
func trimRight(spans []Span) []Span {
	for i := len(spans) - 1; i >= 0; i-- {
		text := strings.TrimRight(spans[i].Text, " ")
		if text != "" {
			return append(spans[:i:i], Span{text, spans[i].Style})
		}
	}
	return nil
}

// paragraph writes text behind a lead of some width, wrapped with a hanging indent.
func (p *Page) paragraph(lead []Span, text string, s Style) {
	indent := width(lead)
	for i, l := range wrap(p.Say(text), p.Width-indent) {
		if i > 0 {
			lead = []Span{{strings.Repeat(" ", indent), Normal}}
		}
		p.Line(slices.Concat(lead, []Span{{l, s}})...)
	}
}

func blanks(n int) Span { return Span{strings.Repeat(" ", n), Normal} }

// width is the number of cells spans take.
func width(spans []Span) int {
	n := 0
	for _, s := range spans {
		n += Columns(s.Text)
	}
	return n
}

// align pads the cells of rows so that columns line up, two blanks apart. Columns of which right
// reports true are flush right.
func align(rows [][]Span, right ...int) [][]Span {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Columns(cell.Text))
		}
	}
	aligned := make([][]Span, len(rows))
	for r, row := range rows {
		for i, cell := range row {
			aligned[r] = append(aligned[r], pad(cell, widths[i], slices.Contains(right, i)), Span{"  ", Normal})
		}
	}
	return aligned
}

func pad(cell Span, width int, right bool) Span {
	blanks := strings.Repeat(" ", width-Columns(cell.Text))
	if right {
		return Span{blanks + cell.Text, cell.Style}
	}
	return Span{cell.Text + blanks, cell.Style}
}
