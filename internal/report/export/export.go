// Package export writes the facts of a run, as they were recorded, for other tools.
package export

import (
	"io"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A Format is a way to write a run's facts.
type Format struct {
	Name  string // what -o takes
	Doc   string // what it is, in a line
	Ext   string // of a file that holds it
	Write func(io.Writer, timeline.Run) error

	Left func(*model.Timeline) string // says what of the facts a timeline.json still holds; nil: nothing
}

// Formats lists all of them. Each is a file, and a word here.
var Formats = []Format{csvFormat, eventsFormat, heldFormat, hlogFormat}
