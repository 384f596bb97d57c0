package model

// Said is a run in words, as every report begins. The sentences are made once, with the verdict (package wording), and
// reports only print them.
type Said struct {
	// the run in a word, as its exit code has it: PASS, FAIL, INCONCLUSIVE, COMMAND FAILED, ABORTED; NO GATE where none
	// was set, LIVE while it goes on
	Word      string    `json:"word"`
	Headline  string    `json:"headline"`  // what was found
	Trust     string    `json:"trust"`     // whether the measurement was sound, and the exit code
	Soundness Soundness `json:"soundness"` // the first of these in a word
	// so little was observed that the run cannot pass: there may be more of what was found
	TooLittle bool `json:"tooLittle"`
	// why it proves less than it was to prove, what a failed command said, what would help
	Caveats []Line   `json:"caveats"`
	Reasons []string `json:"reasons"` // those of the verdict that neither the headline nor a caveat says

	// which share failed of the kind of requests that lost most, for how long, seen from where, how much full outage
	// that equals where not all failed, and which of several incidents did most harm; absent if nothing failed and
	// there is one incident at most
	Extent string `json:"extent,omitzero"`
	// what the preStop sleep that is advised would have left of the failures; absent where that is not known
	KeepServing string `json:"keepServing,omitzero"`
	Measured    string `json:"measured"` // how good the measurement was, what preflight had said, and the exit code
	Exit        string `json:"exit"`     // "exit 3 (failed > 0)"
	Prober      []Line `json:"prober"`   // how good the measurement was, figure by figure
}

// Soundness says whether the prober did its work. The list is closed.
type Soundness string

const (
	NothingMeasured Soundness = "none"
	Doubtful        Soundness = "doubtful"   // the control target had trouble
	Incomplete      Soundness = "incomplete" // too little was observed
	Valid           Soundness = "valid"
)

// A Line is a sentence of a report, and what it is about.
type Line struct {
	Kind   LineKind `json:"kind"`
	Rule   string   `json:"rule,omitzero"`   // of a cause, a fix and what to look at next
	Target string   `json:"target,omitzero"` // whose loss it is
	Text   string   `json:"text"`
}

// LineKind says what a line is. The list is closed.
type LineKind string

// Kinds of lines of a run.
const (
	LineEnded   LineKind = "ended"   // why the run ended early
	LineDoubt   LineKind = "doubt"   // why it does not pass though no gate failed
	LineCommand LineKind = "command" // what its command said that failed
	LineNote    LineKind = "note"    // what is worth knowing and makes no window
	LineHelp    LineKind = "help"    // what would make it conclusive
)

// Kinds of lines of the prober.
const (
	LineFigure  LineKind = "figure"  // one of its figures
	LineStalled LineKind = "stalled" // how far it fell behind, where it stalled
	LineNode    LineKind = "node"    // which node was not measured from, or not all the time
)

// Kinds of lines of an incident, in the order in which it has them.
const (
	LineLost       LineKind = "lost"        // what a target lost, of the first 20 of several
	LineError      LineKind = "error"       // what failures said that no rule explains
	LineEdge       LineKind = "edge"        // which end of a window was not observed
	LineNoEvidence LineKind = "no-evidence" // how many failed requests are no evidence
	LineLive       LineKind = "live"        // it is not final
	LineCause      LineKind = "cause"       // why, the cause of most losses first
	LineFix        LineKind = "fix"         // what to change
	LineNext       LineKind = "next"        // what to look at next, where no rule explains it
)

// WindowSaid is a window in words.
type WindowSaid struct {
	Lasted   string `json:"lasted"`
	Downtime string `json:"downtime"`       // how much that amounts to; empty of slow answers
	Edges    string `json:"edges,omitzero"` // which end was not observed, and why; absent if both were
}

// IncidentSaid is an incident in words.
type IncidentSaid struct {
	Lasted   string `json:"lasted"`   // from when its first window began to when the last one ended
	Downtime string `json:"downtime"` // the worst target's
	Requests string `json:"requests"` // how many failed or were slow, and how many connections were cut
	Errors   string `json:"errors"`   // how they failed
	SetOffBy string `json:"setOffBy"`
	Lines    []Line `json:"lines"`

	Headline string `json:"headline"` // the incident in a line
	// the day, whether it is over, and when: "2026-11-25, over: 13:03:36.894 to 13:03:38.102 UTC (1.21 s)"
	When   string   `json:"when"`
	What   []Lost   `json:"what"`   // the kind of requests that lost most first
	Why    string   `json:"why"`    // the cause of most losses
	Phases []Phase  `json:"phases"` // how that went, by time; empty where the cause rests on no instants
	Do     []string `json:"do"`     // what to do now, what to change, or what to look at next
	// a command that makes the first of these changes, in lines; absent where the recording does not hold all of it
	Patch   string `json:"patch,omitzero"`
	Explain string `json:"explain,omitzero"` // the command that prints the page of the cause
}

// Lost says what became of the requests of one kind.
type Lost struct {
	Of   string `json:"of"`   // "new connections"; with their Service where the run has several
	Text string `json:"text"` // "158 of 332 failed (48 %): refused"; and when, where that was not all the time
}

// A Phase is an instant of an incident.
type Phase struct {
	At   Instant `json:"at"`
	When string  `json:"when"` // in UTC, no more exact than At: "13:03:36.892", "13:03:36.85 to 36.93"
	Text string  `json:"text"`
}
