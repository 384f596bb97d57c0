// Package report renders a judged run for its readers: people at a terminal, and programs. There is
// one file per format, each a function of the same [model.Timeline], and [Formats] is the table
// of them. [Progress] is the view while the run still goes on.
//
// Whatever comes from outside, such as Pod names, event messages and the output of commands, is made
// harmless before it reaches a terminal: it can neither move the cursor nor colour a verdict.
package report

import (
	"io"
	"io/fs"

	"lapse/correlate/model"
)

// Options say what the reader's screen can show. The caller decides, for it knows NO_COLOR, the
// locale and whether there is a terminal at all.
type Options struct {
	Color   bool   // use ANSI colours
	Unicode bool   // use characters beyond ASCII
	Width   int    // columns; 0 means 80
	Verbose bool   // show each window with its evidence and rivals, not incidents alone
	RunDir  string // where the run's files are; empty if they were not kept
	Page    fs.FS  // the built page, which the format html puts the run into
}

// Formats are the ways to render a judged run, by the name that -o takes.
var Formats = map[string]func(io.Writer, *model.Timeline, Options) error{
	"table":    Table,
	"json":     JSON,
	"markdown": Markdown,
	"junit":    JUnit,
	"html":     HTML,
}
