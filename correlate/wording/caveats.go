package wording

import (
	"slices"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// Help begins the line that says what would make a run conclusive.
const Help = "what would help: "

// caveats say why the run proves less than it was to prove, what its command said when it failed, and at the end what
// would help.
func caveats(tl *model.Timeline, doubts []string, help string) []model.Line {
	lines := []model.Line{}
	add := func(kind model.LineKind, text string) { lines = append(lines, model.Line{Kind: kind, Text: text}) }
	switch run := tl.Run; {
	case run.Truncated:
		add(model.LineEnded, run.Recorded(quantity.Span)+"; "+run.Aborted)
	case run.Aborted != "":
		add(model.LineEnded, "aborted after "+quantity.Span(run.Duration)+": "+run.Aborted)
	case tl.Verdict.Result == model.Inconclusive && !run.Live && !tooLittle(tl) && len(doubts) > 0:
		add(model.LineDoubt, doubts[0])
	}
	if commandFailure(tl) != "" {
		for _, line := range LastWords(tl) {
			add(model.LineCommand, "it said: "+line)
		}
	}
	for _, note := range tl.Verdict.Notes {
		add(model.LineNote, note)
	}
	if help != "" {
		add(model.LineHelp, Help+help)
	}
	return lines
}

// unsaid returns the reasons of a verdict that neither its headline nor a caveat says.
func unsaid(v *model.Verdict, caveats []model.Line, finding string) []string {
	rest := []string{}
	for _, reason := range v.Reasons {
		said := slices.ContainsFunc(caveats, func(l model.Line) bool { return l.Text == reason })
		if !said && reason != finding && reason != v.Held {
			rest = append(rest, reason)
		}
	}
	return rest
}
