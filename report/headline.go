package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/verdict"
	"lapse/report/document"
	"lapse/timeline"
)

// This file is what a report says first: what was found, what it proves, and what would prove more. Every format says
// it in these words; the page has them in dashboard/ui/src/headline.ts.

// headline says what was found: that comes first also where the run proves nothing. That nothing failed is said
// together with what would have been seen.
func headline(tl *model.Timeline) string {
	v := &tl.Verdict
	held := verdict.HeldFound(tl)
	if v.Sent == 0 {
		return withCommand(tl, cmp.Or(held, "nothing was measured"))
	}
	parts := []string{found(tl)}
	if held != "" {
		parts = append(parts, held)
	}
	if slow := count(tl.Windows, isSlow); slow > 0 {
		parts = append(parts, fmt.Sprintf("answers slower than %s in %s", quantity.Span(slowFrom(tl)), quantity.Count(slow, "window")))
	}
	switch {
	case v.Coverage < tl.MinCoverage():
		parts = append(parts, "only "+quantity.Coverage(v.Coverage)+" was observed")
	case v.Failed == 0 && !tooLittle(tl) && v.Blind == "":
		parts = append(parts, detectable(tl))
	}
	if v.Blind != "" {
		parts = append(parts, v.Blind)
	}
	parts = append(parts, leastOf(tl)...)
	return withCommand(tl, strings.Join(parts, "; "))
}

// leastOf names the node that observed least, if one missed something.
func leastOf(tl *model.Timeline) []string {
	nodes := tl.Verdict.Nodes
	if len(nodes) < 2 || nodes[0].Coverage >= 1 {
		return nil
	}
	switch short := len(tl.ShortNodes()); {
	case short == 1:
		return []string{verdict.Silence(nodes[0])}
	case short > 1:
		return []string{fmt.Sprintf("%s, and %d more of %d nodes observed too little", verdict.Silence(nodes[0]), short-1, len(nodes))}
	}
	return []string{"least was observed from " + nodes[0].Node + ", " + quantity.Coverage(nodes[0].Coverage)}
}

// slowFrom is the least that an answer took in a slow window.
func slowFrom(tl *model.Timeline) time.Duration {
	from := time.Duration(0)
	for _, t := range tl.Targets {
		isSlowHere := func(w model.Window) bool { return isSlow(w) && w.Target == t.Name }
		if slices.ContainsFunc(tl.Windows, isSlowHere) && (from == 0 || t.SlowFrom < from) {
			from = t.SlowFrom
		}
	}
	return cmp.Or(from, tl.Run.Slow)
}

// found says what failed, and for how long.
func found(tl *model.Timeline) string {
	v := &tl.Verdict
	if v.Failed == 0 {
		return "no failure seen in " + quantity.Count(v.Sent, "request")
	}
	failed := fmt.Sprintf("%d of %s failed", v.Failed, quantity.Count(v.Sent, "request"))
	if n := affected(tl); n > 1 {
		return fmt.Sprintf("%s at %s; the worst was %s", failed, quantity.Count(n, "target"), down(tl))
	}
	return failed + ": " + down(tl)
}

// down says how long requests failed. Where too little was observed only the lower bound is given, if there is one:
// there may have been more. The windows that were found are still no longer than their brackets.
func down(tl *model.Timeline) string {
	total, open := tl.Verdict.Downtime.Total, tl.Verdict.Downtime.Open
	length := quantity.Length(total, open || tooLittle(tl) && total.Min > 0)
	if length == quantity.UnknownLength {
		length = "for an unknown time"
	}
	return "down " + length + " in " + quantity.Count(tl.Verdict.Windows, "window")
}

// withCommand leads with a command that failed, if nothing else did: then it did not do what was to be measured.
func withCommand(tl *model.Timeline, text string) string {
	end := commandFailure(tl)
	switch {
	case end == "":
		return text
	case tl.Verdict.Failed > 0:
		return text + "; the command " + end
	}
	return "the command " + end + "; " + text
}

// commandFailure says how the wrapped command failed, or nothing if it did not.
func commandFailure(tl *model.Timeline) string {
	if c := tl.Run.Command; c != nil && !tl.Run.Live && c.ExitCode != nil && *c.ExitCode != 0 {
		return fmt.Sprintf("failed (exit code %d)", *c.ExitCode)
	}
	return ""
}

// detectable says which outage would have been seen, and how much of the time.
func detectable(tl *model.Timeline) string {
	longest := longestGap(tl)
	if tl.Verdict.Coverage >= 1 {
		return fmt.Sprintf("an outage of %s or longer would have been seen at any time", quantity.Highest(longest))
	}
	return fmt.Sprintf("an outage of %s or longer would have been seen in %s of the time; the longest gap was %s",
		quantity.Highest(resolution(tl)), quantity.Coverage(tl.Verdict.Coverage), quantity.Highest(longest))
}

// resolution is the longest gap between two requests that counts as observed: a longer outage shows wherever it does.
func resolution(tl *model.Timeline) time.Duration {
	longest := tl.Verdict.DetectionLimit
	for _, t := range judged(tl) {
		longest = max(longest, t.GapLimit)
	}
	return longest
}

// longestGap is the longest time in which nothing looked at a judged target.
func longestGap(tl *model.Timeline) time.Duration {
	longest := tl.Verdict.DetectionLimit
	for _, u := range tl.Unobserved {
		longest = max(longest, u.End-u.Start)
	}
	return longest
}

// tooLittle reports whether so little was observed that the run cannot pass.
func tooLittle(tl *model.Timeline) bool {
	return (tl.Verdict.Sent > 0 || len(tl.Held) > 0) && tl.TooLittle()
}

// caveats say why the run proves less than it was to prove, what its command said when it failed, and at the end what
// would help, each in a line.
func caveats(tl *model.Timeline) []string {
	var lines []string
	v := &tl.Verdict
	doubts := verdict.Doubts(tl)
	switch {
	case tl.Run.Truncated:
		lines = append(lines, tl.Run.Recorded(quantity.Span)+"; "+tl.Run.Aborted)
	case tl.Run.Aborted != "":
		lines = append(lines, "aborted after "+quantity.Span(tl.Run.Duration)+": "+tl.Run.Aborted)
	case v.Result == model.Inconclusive && !tl.Run.Live && !tooLittle(tl) && len(doubts) > 0:
		lines = append(lines, doubts[0]) // the most important comes first
	}
	if commandFailure(tl) != "" {
		for _, line := range lastWords(tl) {
			lines = append(lines, "it said: "+line)
		}
	}
	lines = append(lines, v.Notes...)
	if help := verdict.Help(tl); help != "" {
		lines = append(lines, "what would help: "+help)
	}
	return lines
}

// maxLastWords is how many lines of a failed command's output a report repeats.
const maxLastWords = 3

// lastWords are the last different lines that the wrapped command wrote.
func lastWords(tl *model.Timeline) []string {
	var said []string
	for _, e := range slices.Backward(tl.Events) {
		line := strings.TrimSpace(e.Detail)
		if e.Kind != timeline.CommandOutput || line == "" || slices.Contains(said, line) {
			continue
		}
		if said = append(said, line); len(said) == maxLastWords {
			break
		}
	}
	slices.Reverse(said)
	return said
}

// measured says what was measured, when, for how long and how hard.
func measured(tl *model.Timeline) string {
	parts := []string{subject(tl.Run)}
	if judged := judged(tl); len(judged) > 0 {
		parts = append(parts, fmt.Sprintf("%s, %s/s asked", quantity.Count(len(judged), "target"), quantity.Number(sum(judged, func(t model.Target) float64 { return t.Rate }))))
	}
	if held := sum(tl.Held, func(h model.Held) int { return h.Connections }); held > 0 {
		parts = append(parts, quantity.Number(float64(held))+" held")
	}
	parts = append(parts, tl.T0.UTC().Format("2006-01-02 15:04:05")+" UTC", quantity.Span(tl.Run.Duration))
	if c := tl.Run.Command; c != nil {
		parts = append(parts, strings.Join(c.Args, " ")+commandEnd(c, tl.Run.Live))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// mostSubjects is how many Services are named as what was measured; of more, their number is given.
const mostSubjects = 6

// subject names what was measured: each Service once, with the measured ports if it has several.
func subject(run model.RunInfo) string {
	if len(run.Services) > mostSubjects {
		namespaces := map[string]bool{}
		for _, s := range run.Services {
			namespaces[s.Namespace] = true
		}
		return strings.Join(append([]string{fmt.Sprintf("%d Services in %s", len(run.Services), quantity.Count(len(namespaces), "namespace"))}, run.URLs...), ", ")
	}
	var names []string
	for _, s := range run.Services {
		name := "svc " + s.Namespace + "/" + s.Name
		if len(s.Measured) > 1 || len(s.Measured) == 1 && len(s.Ports) > 1 {
			name += ":" + strings.Join(s.Measured, ",")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(append(names, run.URLs...), ", ")
}

func commandEnd(c *model.Command, live bool) string {
	switch {
	case live:
		return ""
	case c.Start == nil:
		return " (never started)"
	case c.ExitCode != nil && *c.ExitCode != 0:
		return fmt.Sprintf(" (exit code %d)", *c.ExitCode)
	case c.End == nil:
		return " (did not end)"
	}
	return ""
}

// A badge is the verdict in a word.
func badgeOf(tl *model.Timeline) (string, document.Style) {
	switch {
	case tl.Run.Live:
		return "LIVE", document.Cyan
	case tl.Verdict.Result == model.Pass:
		return "PASS", document.Green
	case tl.Verdict.Result == model.Fail:
		return "FAIL", document.RedBold
	case tl.Verdict.Result == model.Inconclusive:
		return "INCONCLUSIVE", document.Yellow
	default:
		return "UNGATED", document.Bold
	}
}

func isSlow(w model.Window) bool { return w.Kind == model.Slow }

func isOpen(w model.Window) bool { return w.Open.Start || w.Open.End }

// affected is the number of targets with downtime.
func affected(tl *model.Timeline) int {
	targets := map[string]bool{}
	for _, w := range tl.Windows {
		if !isSlow(w) {
			targets[w.Target] = true
		}
	}
	return len(targets)
}

// trust says whether the measurement itself was sound, and the exit code.
func trust(tl *model.Timeline) string {
	if tl.Run.Live {
		return "so far; the run goes on"
	}
	text := fmt.Sprintf("measurement: %s · exit %d", soundness(tl), tl.Verdict.ExitCode)
	switch tl.Verdict.ExitCode {
	case verdict.ExitUnsaved:
		text += ", not all of it is on disk"
	case verdict.ExitCommand:
		text += ", the command failed"
	case verdict.ExitAborted:
		text += map[bool]string{true: ", the recording breaks off", false: ", aborted"}[tl.Run.Truncated]
	}
	return text
}

// soundness says in a word whether the instrument did its work; the VALID line has the figures.
func soundness(tl *model.Timeline) string {
	control := cmp.Or(tl.Verdict.Validity.Control, "absent")
	switch {
	case tl.Verdict.Sent == 0 && !slices.ContainsFunc(tl.Held, func(h model.Held) bool { return h.Stood > 0 }):
		return "none"
	case control != "ok" && control != "absent":
		return "doubtful"
	case tooLittle(tl):
		return "incomplete"
	default:
		return "valid"
	}
}

// gateMark says how a gate was decided. One that holds in a run that proves too little is no pass.
func gateMark(tl *model.Timeline, g model.GateResult) (mark string, colour document.Style, remark string) {
	switch g.Outcome {
	case model.GatePass:
		if why := unproven(tl); why != "" {
			return "?", document.Yellow, "not broken, but " + why
		}
		if tl.Verdict.Blind != "" {
			return "✓", document.Green, "pass, but blind"
		}
		return "✓", document.Green, "pass"
	case model.GateFail:
		return "✗", document.RedBold, "fail"
	default:
		return "?", document.Yellow, "undecided"
	}
}

// unproven says why a gate that holds is no pass; nothing if it is one.
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
