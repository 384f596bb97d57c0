package evidence

import (
	"lapse/correlate/model"
)

// A Sign is something that was seen, or that should have been: what, where and when, and how much it says.
type Sign struct {
	model.Evidence
	Strength Strength
}

// Strength is how much a sign says.
//
//	             for the cause           against it                       missing
//	Measured     alone it makes high     the cause can hardly be: low     leaves medium
//	Watched      alone it makes medium   the cause can hardly be: low     leaves low
//	Close        alone it makes low      another cause fits too: medium   leaves low
//	Context      decides nothing         decides nothing                  decides nothing
type Strength int

const (
	Context  Strength = iota // tells what happened
	Close                    // close in time, and no more
	Watched                  // from the API server, or by which requests failed how
	Measured                 // measured where it happened: at the Pod's own address, or at the prober's own echo server
)

// Place returns where a sign was seen: in the cluster, or at a target. Signs from two places do not depend on each
// other.
func (s *Sign) Place() string {
	if s.Event > 0 {
		return "cluster"
	}
	return "target " + s.Target
}

// Seen returns a sign of this strength: an event.
func (s Strength) Seen(e *model.Event, text string) Sign { return s.Event(e.ID, new(e.At), text) }

// Event returns a sign of this strength: the event with an ID, and when it was.
func (s Strength) Event(id uint32, at *model.Instant, text string) Sign {
	return Sign{model.Evidence{Event: id, At: at, Text: text}, s}
}

// Target returns a sign of this strength: what was seen at a target; at may be nil.
func (s Strength) Target(name string, at *model.Instant, text string) Sign {
	return Sign{model.Evidence{Target: name, At: at, Text: text}, s}
}

// Says returns a sign that has only words.
func Says(text string) Sign { return Sign{Evidence: model.Evidence{Text: text}} }

// Doubt returns a sign of this strength against a cause, or one that is missing.
func (s Strength) Doubt(text string) Sign { return Sign{model.Evidence{Text: text}, s} }

// Mention returns signs that decide nothing.
func Mention(evidence ...model.Evidence) []Sign {
	signs := make([]Sign, len(evidence))
	for i, e := range evidence {
		signs[i] = Sign{Evidence: e}
	}
	return signs
}
