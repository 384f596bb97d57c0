package timeline

import "time"

// A Phase is a part of a run. [RunPhase] events name it in From and To.
type Phase string

// Phases, in order. A run that is interrupted or refused skips some.
const (
	PhaseStarting  Phase = "starting" // nothing is measured yet: no event names it
	PhaseBaseline  Phase = "baseline" // the healthy state, before the command
	PhaseMeasuring Phase = "measuring"
	PhaseSettling  Phase = "settling" // what the command did may still show
	PhaseEnded     Phase = "ended"    // the recording is complete
)

// PhaseChange is the event that a run has entered the phase to at the instant seen. Detail says why, where that was
// not planned.
func PhaseChange(seen time.Duration, from, to Phase, detail string) Event {
	return Event{Seen: seen, Kind: RunPhase, From: string(from), To: string(to), Detail: detail}
}

// Enters reports whether e is the event that its run has entered phase.
func (e Event) Enters(phase Phase) bool { return e.Kind == RunPhase && e.To == string(phase) }
