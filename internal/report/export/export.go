// Package export writes the facts of a run, as they were recorded, for other tools.
package export

import (
	"io"

	"lapse/timeline"
)

// A Format is a way to write a run's facts.
type Format struct {
	Name  string // what -o takes
	Doc   string // what it is, in a line
	Ext   string // of a file that holds it
	Left  string // what of the facts a timeline.json still holds; empty if nothing
	Write func(io.Writer, timeline.Run) error
}

// Formats lists all of them. Each is a file, and a word here.
var Formats = []Format{csvFormat, eventsFormat, heldFormat, hlogFormat}
