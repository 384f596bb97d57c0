package model

import "time"

// KeepServing says how many requests would still have failed, had each Pod whose routes outlived it served on for
// longer before it stopped: as with a preStop sleep. It counts the failures that were seen, by when they were sent,
// and supposes that routes change when they did.
type KeepServing struct {
	// requests of the windows that it is about: those whose first cause is that routes outlived Pods, with at least
	// medium confidence
	Failed int            `json:"failed"`
	Others int            `json:"others"` // other failures of judged targets, which serving longer is not known to mend
	Left   []ServedLonger `json:"left"`   // by Longer, up to the first that leaves none
}

// ServedLonger is what would have been left of the failures.
type ServedLonger struct {
	Longer time.Duration `json:"longer"`
	Min    int           `json:"min"` // at least
	Max    int           `json:"max"` // at most
}
