package report

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// A style is the parameter of an ANSI "select graphic rendition" sequence.
// Colour only ever repeats what a word or a glyph already says.
type style string

const (
	normal  style = ""
	bold    style = "1"
	dim     style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
	cyan    style = "36"
	redBold style = "1;31"
)

// A span is a piece of a line in one style.
type span struct {
	text  string
	style style
}

// A page collects lines for one screen. Text reaches it through [page.say], which makes it harmless
// and spells it in the characters the screen has.
type page struct {
	Options
	bytes.Buffer
}

func newPage(opts Options) *page {
	opts.Width = max(cmp.Or(opts.Width, 80), 40)
	return &page{Options: opts}
}

// say makes text fit for this screen.
func (p *page) say(text string) string {
	text = clean(text)
	if !p.Unicode {
		text = ascii(text)
	}
	return text
}

// span is text in a style, fit for this screen.
func (p *page) span(text string, s style) span { return span{p.say(text), s} }

// ellipsis marks what was cut off.
func (p *page) ellipsis() string { return p.say("…") }

// line writes spans as one line, cut off at the screen's edge.
func (p *page) line(spans ...span) {
	room := p.Width
	for _, s := range trimRight(spans) {
		text := cut(s.text, room, p.ellipsis())
		room -= columns(text)
		p.paint(text, s.style)
		if text != s.text {
			break
		}
	}
	p.WriteByte('\n')
}

func (p *page) paint(text string, s style) {
	if !p.Color || s == normal || strings.TrimSpace(text) == "" {
		p.WriteString(text)
		return
	}
	p.WriteString("\x1b[" + string(s) + "m" + text + "\x1b[0m")
}

// trimRight drops blanks at the end of a line.
func trimRight(spans []span) []span {
	for i := len(spans) - 1; i >= 0; i-- {
		text := strings.TrimRight(spans[i].text, " ")
		if text != "" {
			return append(spans[:i:i], span{text, spans[i].style})
		}
	}
	return nil
}

// heading opens a section of the report.
func (p *page) heading(title, remark string) {
	p.line(span{" ", normal}, p.span(title, bold), span{"  ", normal}, p.span(remark, dim))
}

// paragraph writes text behind a lead of some width, wrapped with a hanging indent.
func (p *page) paragraph(lead []span, text string, s style) {
	indent := width(lead)
	for i, l := range wrap(p.say(text), p.Width-indent) {
		if i > 0 {
			lead = []span{{strings.Repeat(" ", indent), normal}}
		}
		p.line(slices.Concat(lead, []span{{l, s}})...)
	}
}

// width is the number of cells spans take.
func width(spans []span) int {
	n := 0
	for _, s := range spans {
		n += columns(s.text)
	}
	return n
}

// align pads the cells of rows so that columns line up, two blanks apart. Columns of which right
// reports true are flush right.
func align(rows [][]span, right ...int) [][]span {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell.text))
		}
	}
	aligned := make([][]span, len(rows))
	for r, row := range rows {
		for i, cell := range row {
			aligned[r] = append(aligned[r], pad(cell, widths[i], slices.Contains(right, i)), span{"  ", normal})
		}
	}
	return aligned
}

func pad(cell span, width int, right bool) span {
	blanks := strings.Repeat(" ", width-columns(cell.text))
	if right {
		return span{blanks + cell.text, cell.style}
	}
	return span{cell.text + blanks, cell.style}
}
