package wording

import (
	"fmt"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says what a run is worth: how sound the measurement was, what its gates prove, and the exit code.

// trust says whether the measurement itself was sound, and the exit code. exit says why that is not what the gates
// made it.
func trust(tl *model.Timeline, exit string) string {
	if tl.Run.Live {
		return "so far; the run goes on"
	}
	text := fmt.Sprintf("measurement: %s · exit %d", soundness(tl), tl.Verdict.ExitCode)
	if exit != "" {
		text += ", " + exit
	}
	return text
}

// soundness says in a word whether the prober did its work.
func soundness(tl *model.Timeline) model.Soundness {
	switch control := tl.Verdict.Validity.Control; {
	case !tl.Measured():
		return model.NothingMeasured
	case control != "" && control != "ok" && control != "absent":
		return model.Doubtful
	case tooLittle(tl):
		return model.Incomplete
	default:
		return model.Valid
	}
}

// tooLittle reports whether so little was observed that the run cannot pass.
func tooLittle(tl *model.Timeline) bool {
	return (tl.Verdict.Sent > 0 || len(tl.Held) > 0) && tl.TooLittle()
}

// measured says in a line how good the measurement was, what preflight had said of it, and the exit code.
func measured(tl *model.Timeline, exit string) string {
	if tl.Run.Live {
		return "so far; the run goes on"
	}
	parts := []string{
		fmt.Sprintf("%s, %s observed", soundness(tl), quantity.Coverage(tl.Verdict.Coverage)),
	}
	if text := foretold(tl.Scorecard); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(append(parts, exit), " · ")
}

// exitText says the exit code, and what made it so.
func exitText(tl *model.Timeline, why string) string {
	text := fmt.Sprintf("exit %d", tl.Verdict.ExitCode)
	var failed []string
	for _, g := range tl.Verdict.Gates {
		if g.Outcome == model.GateFail {
			failed = append(failed, g.Expr)
		}
	}
	switch {
	case why != "":
		return text + " (" + why + ")"
	case len(failed) > 0:
		return text + " (" + strings.Join(failed, ", ") + ")"
	case len(tl.Verdict.Gates) == 0 && tl.Verdict.Result == model.Ungated:
		return text + " (no --fail-if was given)"
	}
	return text
}

// gate says how a gate was decided. One that holds in a run that proves too little is no pass.
func gate(tl *model.Timeline, outcome model.GateOutcome) (proven model.GateOutcome, said string) {
	switch outcome {
	case model.GatePass:
		if why := unproven(tl); why != "" {
			return model.GateUndecided, "not broken, but " + why
		}
		if tl.Verdict.Blind != "" {
			return outcome, "pass, but blind"
		}
		return outcome, "pass"
	case model.GateFail:
		return outcome, "fail"
	default:
		return model.GateUndecided, "undecided"
	}
}

// unproven says why a gate that holds is no pass; "" if it is one.
func unproven(tl *model.Timeline) string {
	switch {
	case tl.Run.Truncated:
		return "the recording breaks off"
	case tl.Run.Aborted != "":
		return "the run was aborted"
	case tooLittle(tl):
		return "not enough was observed"
	}
	return ""
}
