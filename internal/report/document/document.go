// Package document is the form that summaries have before they are printed: a headline, and sections of notes and
// tables. It prints them for a terminal ([Page.Print]), as Markdown and as HTML, and writes what comes from outside
// so that it does nothing there ([Clean]).
package document

// A Document is what a summary says, and in which order. Terminal, Markdown and HTML each print it in their own way,
// whatever its sections are about.
type Document struct {
	Badge    string // the verdict in a word
	Tone     Style
	Headline string
	Extent   string   // what of the headline; empty if that says all
	Caveats  []string // why it proves less than it was to prove
	Whole    string   // where all of it is, if a comment is too short for it; empty: timeline.json
	Sections []Section
}

// A Section has a title and what stands below it. One without blocks is left out.
type Section struct {
	Title  string // empty: on a screen its blocks begin at the margin
	Remark string // what the whole section is about
	Blocks []Block
	Tight  bool // on a screen it follows the one before without an empty line
	Column int  // on a screen: where its remark begins and, each on lines of its own, its blocks; 0: as in all sections
}

// A Block is a [Note], a [Table], a [Fact], a [Code] or a [Drawing].
type Block any

// A Fact is a word, and what stands beside it: "WHY", and the cause with its phases.
type Fact struct {
	Label  string
	Blocks []Block
}

// Code is lines to be copied, such as a command.
type Code string

// A Note is a paragraph.
type Note struct {
	Label    string // before the text
	At       string // when, between label and text
	Text     string
	After    string // a remark behind the text
	Tone     Style
	Verbatim bool // the text is to be copied: a path, a command
	Details  []Note
}

// A Table has rows of as many cells as it has columns.
type Table struct {
	Item     string // what a row is about: "incident"
	Columns  []Column
	Rows     []Row
	More     string // what was left out
	Headless bool   // a screen needs no column titles
}

type Column struct {
	Title    string
	Right    bool   // figures: flush right
	Label    string // where a screen is too narrow for the column, its cells stand below their rows behind this
	Lead     string // and begin with this there
	Verbatim bool   // the title is a name or a value: it keeps its case
}

type Row struct {
	Cells []Cell
	Notes []Note // what is said below the row
}

type Cell struct {
	Text     string
	Exact    string // the same at length, for documents; empty if text says it all
	Tone     Style
	Verbatim bool // a name or text from outside
}

// A Drawing is for screens only.
type Drawing func(*Page)

// A Style is the parameter of an ANSI "select graphic rendition" sequence.
// Colour only ever repeats what a word or a glyph already says.
type Style string

const (
	Normal  Style = ""
	Bold    Style = "1"
	Dim     Style = "2"
	Red     Style = "31"
	Green   Style = "32"
	Yellow  Style = "33"
	Cyan    Style = "36"
	RedBold Style = "1;31"
)
