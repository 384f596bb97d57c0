package causes

import (
	"lapse/correlate/model"
	"lapse/correlate/windows"
)

// A Input is what the rules may look at when they explain the windows of a run. The [correlate.Tracker]
// builds one whenever a [model.Timeline] is asked for; rules read it and write causes only.
type Input struct {
	Run       *model.Timeline              // targets, events (placed), unobserved and published windows
	Outages   map[string][]model.Window    // by target name, for all targets, direct and control included; without causes
	FirstLast map[string]windows.FirstLast // by target name
	Streaks   map[string]*windows.Streaks  // by target name, of those of kind new
}
