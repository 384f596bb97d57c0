// Package report renders a judged run for its readers: people at a terminal, and programs. There is one file per
// format, and [Formats] is the table of them. Package chart draws the run, package export writes its facts. [Progress]
// is the view while the run still goes on.
//
// Whatever comes from outside, such as Pod names, event messages and the output of commands, is made
// harmless before it reaches a terminal: it can neither move the cursor nor colour a verdict.
package report

import (
	"io"
	"io/fs"
	"slices"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/internal/report/export"
	"lapse/internal/report/otlp"
	"lapse/timeline"
)

// Options say what the reader's screen can show. The caller decides, by NO_COLOR, the
// locale and whether there is a terminal at all.
type Options struct {
	Color   bool   // use ANSI colours
	Unicode bool   // use characters beyond ASCII
	Width   int    // columns; 0 means 80
	Verbose bool   // show each window with its evidence and rivals, not incidents alone
	Quiet   bool   // show the verdict alone
	RunDir  string // where the run's files are; empty if they were not kept
	Page    fs.FS  // the built page, which the format html puts the run into

	Env otlp.Env // the environment, which names the parent of the format otlp; nil: it is empty
}

// page returns what the page of a summary can show.
func (o Options) page() document.Screen {
	return document.Screen{Color: o.Color, Unicode: o.Unicode, Width: o.Width}
}

// A Format is a way to write a run: the judged document for a reader, or the facts for other tools.
type Format struct {
	Name  string // what -o takes
	Doc   string // what it is, in a line
	Ext   string // of a file that holds it
	Facts bool   // it is written from the facts, not from what was judged of them
	Write func(io.Writer, Saved, Options) error

	Left  func(*model.Timeline) string // says what of the facts a timeline.json still holds; nil: nothing
	Check func(otlp.Env) error         // refuses an environment that it cannot be written in; nil: none
	// writes what changed between two runs; nil: the format has no words for that
	Diff func(io.Writer, *Comparison, Options) error
}

// Saved is a run: its facts as they were recorded, and what was judged of them. A format reads the one it is made from.
type Saved struct {
	Facts  timeline.Run
	Judged *model.Timeline
}

// Formats lists all of them: what is written of a judged run, each a file and a word here, and what is written of the
// facts, each a file and a word in [export.Formats].
var Formats = append(
	[]Format{
		tableFormat, jsonFormat, markdownFormat, junitFormat, githubFormat, htmlFormat, perfettoFormat, otlpFormat,
	},
	factsFormats()...,
)

// FormatNamed returns the one of formats that has a name.
func FormatNamed(formats []Format, name string) (Format, bool) {
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return formats[i], true
}

// DiffFormats are those that a comparison of two runs can be written in.
func DiffFormats() []Format {
	return slices.DeleteFunc(slices.Clone(Formats), func(f Format) bool { return f.Diff == nil })
}

// judgedBy makes a format's Write of a function of the judged document.
func judgedBy(write func(io.Writer, *model.Timeline, Options) error) func(io.Writer, Saved, Options) error {
	return func(w io.Writer, s Saved, opts Options) error { return write(w, s.Judged, opts) }
}

// factsFormats returns the formats that are written from the facts.
func factsFormats() (formats []Format) {
	for _, f := range export.Formats {
		formats = append(formats, Format{
			Name:  f.Name,
			Doc:   f.Doc,
			Ext:   f.Ext,
			Facts: true,
			Left:  f.Left,
			Write: func(w io.Writer, s Saved, _ Options) error { return f.Write(w, s.Facts) },
		})
	}
	return formats
}
