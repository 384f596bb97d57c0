package rule

import (
	"fmt"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
)

// Beside adds what the targets say whose requests bypass what stands before the Service. If all were well, that
// supports the finding; if some failed too, that speaks against it (%s in failedToo is their names); without any, the
// finding is less sure.
func (f *Finding) Beside(well, ill []string, wereWell, failedToo, unmeasured string) {
	switch {
	case len(ill) > 0:
		f.Oppose(evidence.Close.Doubt(fmt.Sprintf(failedToo, strings.Join(ill, ", "))))
	case len(well) > 0:
		f.For = append(f.For, evidence.Watched.Target(well[0], nil, wereWell))
	default:
		f.Lack(evidence.Measured.Doubt(unmeasured))
	}
}

// A Finding is what a rule says of one window. It names the cause only if there is a sign For it. Else the rule does
// not apply, and the first sign Against or Missing says why.
type Finding struct {
	For, Against, Missing []evidence.Sign
	Measures              []model.Measure
	Sleep                 *model.Sleep // how long a preStop sleep must be; nil if it is not the whole fix

	Text     string // the cause in one sentence, with names and figures
	Fix      string // what to change, with a number in it
	Explains int    // how many of the window's failures it can have made; 0: all; < 0: none
	Reason   string // one of the rule's Reasons; empty if it has none, or if none of them was seen
}

// No returns the finding that a rule does not apply.
func No(why string) Finding { return Finding{Against: []evidence.Sign{evidence.Says(why)}} }

// Oppose adds doubts.
func (f *Finding) Oppose(signs ...evidence.Sign) { f.Against = append(f.Against, signs...) }

// Lack adds what is not known.
func (f *Finding) Lack(signs ...evidence.Sign) { f.Missing = append(f.Missing, signs...) }

// Applies reports whether the finding names its rule's cause.
func (f *Finding) Applies() bool { return len(f.For) > 0 && f.Explains >= 0 }

// WhyNot says why a rule does not apply.
func (f *Finding) WhyNot() string {
	if f.Explains < 0 {
		return "it cannot explain any of the failures"
	}
	for _, signs := range [][]evidence.Sign{f.Missing, f.Against} {
		if len(signs) > 0 {
			return signs[0].Text
		}
	}
	return ""
}
