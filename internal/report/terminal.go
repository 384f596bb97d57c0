package report

import (
	"io"

	"lapse/correlate/model"
	"lapse/internal/report/document"
)

var tableFormat = Format{
	Name: "table", Doc: "a summary for a terminal", Ext: "txt", Write: judgedBy(Table), Diff: diffTable,
}

// Table renders the final summary for a terminal: the verdict, and below it what it rests on.
func Table(w io.Writer, tl *model.Timeline, opts Options) error {
	p := document.NewPage(opts.page())
	opts.Width = p.Width
	v := &view{Timeline: tl, Options: opts, names: targetNames(tl, nameWidth(p)), screen: true}
	p.Print(v.document())
	_, err := p.WriteTo(w)
	return err
}

// nameWidth is how much of the screen a target's name gets.
func nameWidth(p *document.Page) int { return min(max(12, p.Width/4), documentNames) }
