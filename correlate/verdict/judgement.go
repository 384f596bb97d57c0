package verdict

import (
	"slices"

	"lapse/correlate/model"
)

// A judgement weighs the figures of one run.
type judgement struct {
	tl *model.Timeline
	v  *model.Verdict
}

func (j judgement) aborted() bool { return j.tl.Run.Aborted != "" }

// commandExit returns the wrapped command's exit code; 0 if there was none, or if it has not ended.
func (j judgement) commandExit() int {
	if c := j.tl.Run.Command; c != nil && c.ExitCode != nil {
		return *c.ExitCode
	}
	return 0
}

func (j judgement) has(outcome model.GateOutcome) bool {
	return slices.ContainsFunc(j.v.Gates, func(g model.GateResult) bool { return g.Outcome == outcome })
}

func (j judgement) passed() model.Result {
	if len(j.v.Gates) == 0 {
		return model.Ungated
	}
	return model.Pass
}
