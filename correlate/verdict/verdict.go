// Package verdict gives a judged run its verdict: figures with error bars, gates that are compared with them, a
// result and an exit code.
package verdict

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
)

// Exit codes of a judged run. 1 and 2 are errors of ours and of the user's; they have no verdict, but for [Unsaved].
const (
	ExitPassed     = 0 // passed, or ungated
	ExitUnsaved    = 1 // as 0, but not all of the run is on disk
	ExitGateFailed = 3
	// coverage below --min-coverage, a gate the error bars cannot decide, or nothing measured or tested
	ExitInconclusive = 4
	ExitCommand      = 5 // the wrapped command failed
	ExitAborted      = 6
)

// Judge fills the verdict of a run. A failed gate goes before everything, for what was measured was
// bad enough; then an aborted run, an inconclusive one, and a wrapped command that failed.
// Whether it was aborted, and how the command ended, is what the timeline says ([model.RunInfo]), so that a
// saved run judged again gets the same verdict.
func Judge(tl *model.Timeline, gates []Gate) {
	v := figures(tl)
	for _, g := range gates {
		v.Gates = append(v.Gates, g.judge(tl, &v))
	}
	bound(&v, tl)
	tl.Verdict.Nodes = v.Nodes
	j := judgement{tl: tl, v: &v}
	v.Result, v.ExitCode = j.result()
	v.Reasons, v.Notes, v.Held = j.reasons(), notes(tl), HeldFound(tl)
	tl.Verdict, tl.Scorecard, tl.Services = v, score(tl), services(tl)
	Say(tl)
}

// Say puts a judged run into words, as [Judge] does: for one that has none, or whose verdict was changed.
func Say(tl *model.Timeline) {
	j := judgement{tl: tl, v: &tl.Verdict}
	w := wording.Judged{Doubts: j.doubts(), Help: j.help(), Exit: j.exit(), Word: j.word()}
	if j.v.Sent > 0 {
		w.Finding = j.finding()
	}
	wording.Say(tl, w)
}

// exit says why the exit code is not what the gates made it; "" if it is.
func (j judgement) exit() string {
	switch {
	case j.v.ExitCode == ExitUnsaved:
		return "not all of it is on disk"
	case j.v.ExitCode == ExitCommand:
		return "the command failed"
	case j.v.ExitCode == ExitAborted && j.tl.Run.Truncated:
		return "the recording breaks off"
	case j.v.ExitCode == ExitAborted:
		return "aborted"
	}
	return ""
}

// word returns the run in a word, as its exit code has it.
func (j judgement) word() string {
	switch {
	case j.tl.Run.Live:
		return "LIVE"
	case j.v.ExitCode == ExitAborted:
		return "ABORTED"
	case j.v.ExitCode == ExitCommand:
		return "COMMAND FAILED"
	case j.v.Result == model.Pass:
		return "PASS"
	case j.v.Result == model.Fail:
		return "FAIL"
	case j.v.Result == model.Inconclusive:
		return "INCONCLUSIVE"
	}
	return "NO GATE"
}

// Unsaved says of a judged run that not all of it is on disk, and why. What was found stays, and so does every exit
// code but 0.
func Unsaved(tl *model.Timeline, why error) {
	tl.Run.Unsaved = strings.TrimPrefix(tl.Run.Unsaved+"; "+why.Error(), "; ")
	tl.Verdict.Reasons = append(tl.Verdict.Reasons, "not all of the run is on disk: "+why.Error())
	tl.Verdict.ExitCode = cmp.Or(tl.Verdict.ExitCode, ExitUnsaved)
	Say(tl)
}

// result applies the precedence of exit codes: 3, 6, 4, 5, 0.
func (j judgement) result() (model.Result, int) {
	switch {
	case j.has(model.GateFail):
		return model.Fail, ExitGateFailed
	case j.aborted():
		return model.Inconclusive, ExitAborted
	case len(j.doubts()) > 0:
		return model.Inconclusive, ExitInconclusive
	case j.commandExit() != 0:
		return j.passed(), ExitCommand
	}
	return j.passed(), ExitPassed
}

// doubts returns the reasons for which a run that fails no gate does not pass either.
func (j judgement) doubts() []string {
	if j.v.Sent == 0 && sumHeld(j.tl).stood == 0 {
		return []string{"nothing was measured: no request had a result that counts"}
	}
	doubts := Unproven(j.tl)
	if needed := j.tl.MinCoverage(); j.v.Coverage < needed {
		doubts = append(doubts,
			fmt.Sprintf("coverage %s is below the required %s: downtime in unobserved time cannot be excluded",
				quantity.Coverage(j.v.Coverage), quantity.Percent(needed)))
	}
	if short := shortOf(j.tl); short != "" {
		doubts = append(doubts, short)
	}
	for _, g := range j.v.Gates {
		if g.Outcome == model.GateUndecided {
			doubts = append(doubts, undecided(g))
		}
	}
	return doubts
}

func undecided(g model.GateResult) string {
	if g.Value == nil {
		return fmt.Sprintf("gate %s: nothing to judge it by was measured", g.Expr)
	}
	return fmt.Sprintf("gate %s: the error bars (%s) cannot decide it", g.Expr, ValueText(g))
}

// ValueText prints the value of a gate, which must have one, in the gate's unit.
func ValueText(g model.GateResult) string {
	v := *g.Value
	if g.Unit == model.Duration {
		return quantity.Length(model.Length{Min: time.Duration(v.Min), Max: time.Duration(v.Max)}, v.Open)
	}
	write := quantity.Number
	switch {
	case isCoverage(g.Metric):
		write = quantity.Coverage
	case g.Unit == model.Ratio:
		write = quantity.Percent
	}
	switch {
	case v.Open:
		return "≥ " + write(v.Min)
	case v.Min == v.Max:
		return write(v.Min)
	}
	return write(v.Min) + " to " + write(v.Max)
}

// reasons says in sentences what the result rests on: which gates failed, what was found and why, what that proves
// less than it was to prove, and what would help.
func (j judgement) reasons() []string {
	var reasons []string
	for _, g := range j.v.Gates {
		if g.Outcome == model.GateFail {
			reasons = append(reasons, fmt.Sprintf("gate %s failed: %s", g.Expr, ValueText(g)))
		}
	}
	if text := HeldFound(j.tl); text != "" {
		reasons = append(reasons, text)
	}
	if j.v.Sent > 0 {
		reasons = append(reasons, j.finding())
		if why := j.cause(); why != "" && j.v.Result == model.Inconclusive {
			reasons = append(reasons, why)
		}
	}
	switch run := j.tl.Run; {
	case run.Truncated:
		reasons = append(reasons, run.Recorded(quantity.Span)+": "+run.Aborted)
	case j.aborted():
		reasons = append(reasons, "the run was aborted: "+run.Aborted)
	}
	reasons = append(reasons, j.doubts()...)
	if code := j.commandExit(); code != 0 {
		reasons = append(reasons, fmt.Sprintf("the wrapped command failed with exit code %d", code))
	}
	if help := j.help(); help != "" {
		reasons = append(reasons, wording.Help+help)
	}
	return reasons
}

// notes says what is worth knowing and makes no window.
func notes(tl *model.Timeline) []string {
	var notes []string
	for _, t := range tl.Targets {
		if !t.Kind.Judged() || !t.AlwaysSlow || t.Latency == nil {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s: every answer takes about %s; slow is what takes longer than %s", t.Name,
			quantity.Span(t.Latency.P50), quantity.Span(t.SlowFrom)))
	}
	if pending := wording.Pending(tl); pending != "" && !tl.Run.Live {
		notes = append(notes, pending)
	}
	return append(notes, wording.ControlPlane(tl)...)
}

// finding says what was found; never a bare zero, for what is shorter than the time between two
// requests can hide there.
func (j judgement) finding() string {
	if j.v.Failed == 0 {
		return fmt.Sprintf("no failure seen in %s; %s", quantity.Count(j.v.Sent, "request"),
			cmp.Or(j.v.Blind, j.detectable()))
	}
	downtime := quantity.Length(j.v.Downtime.Total, j.v.Downtime.Open)
	return fmt.Sprintf("%d of %s failed: downtime %s in %s", j.v.Failed, quantity.Count(j.v.Sent, "request"), downtime,
		quantity.Count(j.v.Windows, "window"))
}

// detectable says which outage would have been seen, and how much of the time.
func (j judgement) detectable() string {
	limit := quantity.Highest(j.v.DetectionLimit)
	if j.v.Coverage >= 1 {
		return fmt.Sprintf("an outage of %s or longer would have been seen at any time", limit) + wording.Since(j.tl)
	}
	longest := j.v.DetectionLimit
	for _, u := range j.tl.Unobserved {
		longest = max(longest, u.End-u.Start)
	}
	return fmt.Sprintf("an outage of %s or longer would have been seen in %s of the time; the longest gap was %s",
		limit, quantity.Coverage(j.v.Coverage), quantity.Highest(longest))
}

// cause says why the window with the most failures opened, if that is known.
func (j judgement) cause() string {
	var worst *model.Window
	for w := range downtimes(j.tl) {
		if worst == nil || w.Failed > worst.Failed {
			worst = w
		}
	}
	if worst == nil || len(worst.Causes) == 0 || worst.Causes[0].Rule == model.Unexplained {
		return ""
	}
	c := worst.Causes[0]
	return fmt.Sprintf("%s [%s]: %s", c.Rule, c.Confidence, c.Text)
}
