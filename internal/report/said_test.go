package report

import (
	"lapse/correlate/model"
	"lapse/correlate/verdict"
)

// said returns a run in words, as its verdict makes them: samples are changed after they were.
func said(tl *model.Timeline) *model.Timeline {
	tl.Verdict.Held = verdict.HeldFound(tl)
	verdict.Say(tl)
	return tl
}

func headline(tl *model.Timeline) string { return said(tl).Said.Headline }

func extent(tl *model.Timeline) string { return said(tl).Said.Extent }

func trust(tl *model.Timeline) string { return said(tl).Said.Trust }

func soundness(tl *model.Timeline) string { return string(said(tl).Said.Soundness) }

func caveats(tl *model.Timeline) []string { return texts(said(tl).Said.Caveats) }

// gateSaid returns how a gate of a run reads.
func gateSaid(tl *model.Timeline, g model.GateResult) (mark, remark string) {
	tl.Verdict.Gates = []model.GateResult{g}
	g = said(tl).Verdict.Gates[0]
	return gateMarks[g.Proven].Text, g.Said
}

// windowSaid returns a window of a run in words.
func windowSaid(tl *model.Timeline, w model.Window) model.WindowSaid {
	tl.Windows = []model.Window{w}
	return said(tl).Windows[0].Said
}
