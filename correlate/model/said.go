package model

// Said is a run in words, as every report begins. The sentences are made once, with the verdict (package wording), and
// reports only print them.
type Said struct {
	Headline  string    `json:"headline"`  // what was found
	Trust     string    `json:"trust"`     // whether the measurement was sound, and the exit code
	Soundness Soundness `json:"soundness"` // the first of these in a word
	// so little was observed that the run cannot pass: there may be more of what was found
	TooLittle bool `json:"tooLittle"`
	// why it proves less than it was to prove, what a failed command said, what would help
	Caveats []Line   `json:"caveats"`
	Reasons []string `json:"reasons"` // those of the verdict that neither the headline nor a caveat says
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
}
