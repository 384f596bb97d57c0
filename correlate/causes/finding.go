package causes

import "lapse/correlate/model"

// A Finding is what a rule says of one window. It names the cause only if there is a sign For it. Else the rule does
// not apply, and the first sign Against or Missing says why.
type Finding struct {
	For, Against, Missing []Sign
	Measures              []model.Measure

	Text     string // the cause in one sentence, with names and figures
	Fix      string // what to change, with a number in it
	Explains int    // how many of the window's failures it can have made; 0: all; < 0: none
	Reason   string // one of the rule's Reasons; empty if it has none, or if none of them was seen
}

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

// says is a sign that has only words.
func says(text string) Sign { return Sign{Evidence: model.Evidence{Text: text}} }

// doubt is a sign against a cause, or a missing one.
func doubt(strength Strength, text string) Sign {
	return Sign{Evidence: model.Evidence{Text: text}, Strength: strength}
}

// context are signs that decide nothing.
func context(evidence ...model.Evidence) []Sign {
	signs := make([]Sign, len(evidence))
	for i, e := range evidence {
		signs[i] = Sign{Evidence: e}
	}
	return signs
}

// no is the finding that a rule does not apply.
func no(why string) Finding { return Finding{Against: []Sign{says(why)}} }

// against adds doubts.
func (f *Finding) against(signs ...Sign) { f.Against = append(f.Against, signs...) }

// missing adds what is not known.
func (f *Finding) missing(signs ...Sign) { f.Missing = append(f.Missing, signs...) }

// applies reports whether the finding names its rule's cause.
func (f *Finding) applies() bool { return len(f.For) > 0 && f.Explains >= 0 }

// whyNot says why a rule does not apply.
func (f *Finding) whyNot() string {
	if f.Explains < 0 {
		return "what it would blame can have made none of the failures"
	}
	for _, signs := range [][]Sign{f.Missing, f.Against} {
		if len(signs) > 0 {
			return signs[0].Text
		}
	}
	return ""
}
