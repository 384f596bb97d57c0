package causes

import (
	"time"

	"lapse/correlate/model"
	"lapse/correlate/windows"
)

// An Input is a judged run whose windows have no causes yet, and what else of the measurement rules need.
type Input struct {
	Run       *model.Timeline              // targets, events (placed), unobserved and published windows
	Outages   map[string][]model.Window    // by target name, for all targets, direct and control included; without causes
	FirstLast map[string]windows.FirstLast // by target name
	Streaks   map[string]*windows.Streaks  // by target name, of those of kind new
	Cuts      map[string][]model.HeldCut   // by target name, of those of kind held: every one

	// Answered counts the requests to a target that were sent between two instants, and those of them that were answered, good or bad. It
	// leaves out up to a few 100 ms at either end.
	Answered func(target string, from, to time.Duration) (answered, sent int)
}

// A Case is what a rule reads: one window, in its run.
type Case struct {
	*index
	Window *model.Window

	lookedForEmpty bool
	empty          *emptiness // nil if the Service had an endpoint
	notEmpty       string     // then why

	rejected  []Sign // why each rule that was asked does not apply
	partly    bool   // one applies, but not to most of the failures
	unmatched int    // then: the failures that none explains
}
