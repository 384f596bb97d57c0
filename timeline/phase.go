package timeline

import "time"

// A Phase is a part of a run. [RunPhase] events name it in From and To.
type Phase string

// Phases, in order. A run that is interrupted or refused skips some.
const (
	PhaseStarting  Phase = "starting" // nothing is measured yet: no event names it
	PhaseArmed     Phase = "armed"    // the run waits for the first sign of a disruption: no event names it
	PhaseBaseline  Phase = "baseline" // the healthy state, before the command
	PhaseMeasuring Phase = "measuring"
	PhaseSettling  Phase = "settling" // effects of the command may still show
	PhaseEnded     Phase = "ended"    // the recording is complete
)

// PhaseChange returns the event that a run entered the phase to at the instant seen. detail says why, if that was not
// planned.
func PhaseChange(seen time.Duration, from, to Phase, detail string) Event {
	return Event{Seen: seen, Kind: RunPhase, From: string(from), To: string(to), Detail: detail}
}

// Enters reports whether e is the event that the run entered phase.
func (e Event) Enters(phase Phase) bool { return e.Kind == RunPhase && e.To == string(phase) }
