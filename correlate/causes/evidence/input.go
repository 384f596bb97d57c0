package evidence

import (
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// An Input is a judged run whose windows have no causes yet, and what else of the measurement rules need.
type Input struct {
	Run    *model.Timeline                       // targets, events (placed), unobserved and published windows
	Probed map[timeline.TargetID]*Probed         // of all targets, direct and control included
	Cuts   map[timeline.TargetID][]model.HeldCut // of the targets of kind held: every cut

	// Answered counts the requests to a target that were sent between two instants, and those of them that were
	// answered, good or bad. It leaves out up to a few 100 ms at either end.
	Answered func(target timeline.TargetID, from, to time.Duration) (answered, sent int)
}

// A Probed is what is known of one target in addition to what is published.
type Probed struct {
	Outages   []model.Window // without causes
	FirstLast windows.FirstLast
	Streaks   *windows.Streaks // of one of kind new
	Rates     *windows.Intervals
	Densest   time.Duration // of a direct one: the shortest time between due requests; 0 if it is not known

	// of a control target: from Sent to Done of each request that failed or was late
	Unwell []model.Instant
}
