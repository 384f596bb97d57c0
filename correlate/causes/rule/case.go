package rule

import (
	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
)

// A Case is what a rule reads: one window, in its run.
type Case struct {
	*evidence.Evidence
	Window *model.Window

	Kept any // what rules of one family keep for each other

	Rejected  []evidence.Sign // why each rule that was asked does not apply
	Partly    bool            // one applies, but not to most of the failures
	Unmatched int             // then: the failures that none explains
}
