package causes

import (
	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
)

// A Case is what a rule reads: one window, in its run.
type Case struct {
	*evidence.Evidence
	Window *model.Window

	kept any // what rules of one family keep for each other

	rejected  []evidence.Sign // why each rule that was asked does not apply
	partly    bool            // one applies, but not to most of the failures
	unmatched int             // then: the failures that none explains
}
