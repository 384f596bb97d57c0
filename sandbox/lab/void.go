package main

import (
	"fmt"
	"os"
	"slices"
	"time"

	"lapse/sandbox/drill"
)

const (
	// voidFrom is how long the machine stands still at least for a run to be no trial of its scenario: servers,
	// probers and the control plane stood still with it, for a good part of a request's timeout.
	voidFrom = 300 * time.Millisecond
	// mostTries is how often a scenario is played at most, until one of its runs is a trial of it.
	mostTries = 3
)

// void returns why a run that is not as its scenario expects says nothing of Lapse, "" if it counts. A run that is
// published always counts. So does one in which Lapse names a cause at high confidence that was not provoked: a
// machine that stands still is no excuse for that.
func (r result) void(s settings) string {
	if r.ok() || r.err != nil || s.Out != "" || r.blamesTheWrongThing() {
		return ""
	}
	if why := stoodStill(r.run.Timeline); why != "" || r.scenario.alone() {
		return why
	}
	return watchedInParts(r.run.Timeline)
}

// stoodStill returns the longest standstill of the machine in words, "" if none lasted voidFrom.
func stoodStill(t drill.Timeline) string {
	length := func(i drill.Instant) time.Duration { return i.Latest - i.Earliest }
	stops := t.Standstills()
	if len(stops) == 0 {
		return ""
	}
	longest := slices.MaxFunc(stops, func(a, b drill.Instant) int { return int(length(a) - length(b)) })
	if length(longest) < voidFrom {
		return ""
	}
	return fmt.Sprintf("the machine stood still for %s, %s after the run's begin",
		seconds(length(longest)), seconds(longest.Earliest))
}

// watchedInParts returns the first gap in the watch of the cluster in words, "" if there was none. If a scenario
// touches only its own namespace, the API server had no time for a second.
func watchedInParts(t drill.Timeline) string {
	i := slices.IndexFunc(t.Events, func(e drill.Event) bool { return e.Kind == "watch-gap" })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("the watch was interrupted, %s after the run's begin, and the scenario does nothing to the "+
		"API server", seconds(t.Events[i].At.Earliest))
}

// blamesTheWrongThing reports whether an incident has a first cause of high confidence that the scenario does not
// expect anywhere, and that is not of the prober itself.
func (r result) blamesTheWrongThing() bool {
	expected := append([]string{"prober-fault"}, r.scenario.Expect.Allow...)
	for _, i := range r.scenario.Expect.Incidents {
		expected = append(expected, i.Rules...)
	}
	return slices.ContainsFunc(r.run.Timeline.Incidents, func(i drill.Incident) bool {
		first := firstCause(i)
		return first.Confidence == highConfidence && !slices.Contains(expected, first.Rule)
	})
}

// setAside renames the folder of a void run, so that another run can take its place.
func setAside(dir string, try int) error {
	return os.Rename(dir, fmt.Sprintf("%s-void-%d", dir, try))
}
