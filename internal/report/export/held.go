package export

import (
	"io"
	"strconv"

	"lapse/timeline"
)

var heldFormat = Format{
	Name:  "held",
	Doc:   "a CSV row for everything that became of a held connection: opened, failed, cut, closed",
	Ext:   "csv",
	Write: heldCSV,
}

// heldColumns are the columns of [heldCSV].
var heldColumns = []string{
	"target",
	"connection",
	"change",
	"class",
	"from",
	"answered",
	"at",
	"warned",
	"stopped",
	"backend",
	"peer",
	"clock_error",
}

// heldCSV writes a row for every change of a held connection, in the order recorded: see [timeline.HeldChange].
// Instants are nanoseconds since the run's t0 on the run's clock, each to clock_error. What a change does not have
// is empty: answered, unless the connection stood; warned and stopped, unless it was cut; the class, where nothing
// was wrong.
func heldCSV(w io.Writer, run timeline.Run) error {
	out := newTable(w, heldColumns)
	targets, backends, peers := namesOf(run)
	clocks := clocksOf(run)
	for _, batch := range run.Held {
		for _, c := range batch.Changes {
			at := clocks.Place(batch.Source, c.From, max(c.From, c.Answered), c.At)
			out.text(targets[c.Target].Name)
			out.number(int64(c.Conn))
			out.text(c.Kind.String(), faultOf(c))
			out.number(int64(at.Due))
			if c.Answered == 0 {
				out.text("")
			} else {
				out.number(int64(at.Sent))
			}
			out.number(int64(at.Done))
			if c.Kind == timeline.HeldCut {
				out.text(strconv.FormatBool(c.Warned), strconv.FormatBool(c.Stopped))
			} else {
				out.text("", "")
			}
			out.text(backends[number{batch.Source, c.Backend}], peers[number{batch.Source, c.Peer}])
			out.some(int64(at.Error))
			out.endRow()
		}
	}
	return out.end(nil)
}

func faultOf(c timeline.HeldChange) string {
	if c.Class == timeline.OK {
		return ""
	}
	return c.Class.String()
}
