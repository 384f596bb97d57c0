// Package wording puts a judged run into words: the sentences of its headline, its caveats, its prober, its gates,
// windows and incidents. They are made once, with the verdict, and stand in the judged document. Whoever shows a run
// prints them: the terminal, Markdown, JUnit and the page say the same because none of them makes a sentence of its
// own.
//
// A sentence that has parts is a [model.Line]: its kind says what it is, so that a report can choose, cut and lay out
// lines without reading them. Names in a line are whole, and instants stay with the figures, because each report
// writes them in its own way.
package wording

import (
	"slices"

	"lapse/correlate/model"
)

// Judged is what the verdict found out and no field of the document says.
type Judged struct {
	Doubts  []string // why a run that fails no gate does not pass either, the most important first
	Help    string   // what would make it conclusive; "" if nothing is known to
	Finding string   // the one of its reasons that says what was found, as the headline does
	Exit    string   // why the exit code is not what the gates made it; "" if it is
	Word    string   // the run in a word, as its exit code has it
}

// Say fills in the sentences of a run whose verdict is complete.
func Say(tl *model.Timeline, j Judged) {
	scene := newScene(tl)
	for _, w := range scene.windows {
		w.Said = model.WindowSaid{Lasted: lasted(w), Downtime: downtime(w), Edges: scene.edges(w)}
	}
	for i := range tl.Incidents {
		in := &tl.Incidents[i]
		in.Said = incidentSaid(&incident{Incident: in, windows: scene.windowsOf(in), run: scene})
	}
	for i := range tl.Verdict.Gates {
		g := &tl.Verdict.Gates[i]
		g.Proven, g.Said = gate(tl, g.Outcome)
	}
	if tl.Scorecard != nil {
		tl.Scorecard.Said = scorecard(tl.Scorecard)
	}
	caveats, exit := caveats(tl, j.Doubts, j.Help), exitText(tl, j.Exit)
	tl.Said = model.Said{
		Word:        j.Word,
		Headline:    headline(tl),
		Trust:       trust(tl, j.Exit),
		Soundness:   soundness(tl),
		TooLittle:   tooLittle(tl),
		Caveats:     caveats,
		Reasons:     unsaid(&tl.Verdict, caveats, j.Finding),
		Extent:      scene.extent(),
		KeepServing: keepServing(tl),
		Measured:    measured(tl, exit),
		Exit:        exit,
		Prober:      prober(tl),
	}
}

// incidentSaid puts an incident into words.
func incidentSaid(in *incident) model.IncidentSaid {
	do, patch := in.do()
	said := model.IncidentSaid{
		Lasted:   in.lasted(),
		Downtime: in.downtime(),
		Requests: in.requests(),
		Errors:   in.errors(),
		SetOffBy: in.setOffBy(),
		Lines: append([]model.Line{}, slices.Concat(
			in.losses(), in.notes(), in.causes(), in.fixes(),
		)...),
		Headline: in.headline(),
		When:     in.when(),
		What:     in.what(),
		Why:      in.why(),
		Phases:   in.phases(),
		Do:       do,
		Patch:    patch,
	}
	if len(in.Causes) > 0 && (in.Causes[0].Rule != model.Unexplained || in.Causes[0].Reason == "") {
		said.Explain = "lapse explain " + in.Causes[0].Rule
	}
	return said
}
