package correlate

// A scene is what the rules may look at when they explain the windows of a run. The [Tracker]
// builds one whenever a [Timeline] is asked for; rules read it and write causes only.
type scene struct {
	run     *Timeline           // targets, events (placed), unobserved and published windows
	outages map[string][]Window // by target name, for all targets, direct and control included; without causes
	edges   map[string]edge     // by target name
	streaks map[string]*streaks // by target name, of those of kind new
}
