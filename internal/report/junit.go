package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
	"lapse/internal/report/document"
	"lapse/internal/report/junit"
)

var junitFormat = Format{
	Name:  "junit",
	Doc:   "JUnit XML: a case for each gate, each incident, the measurement and the command",
	Ext:   "xml",
	Write: judgedBy(JUnit),
}

// JUnit renders the verdict as JUnit XML, which pipelines collect: one suite for the run, and in it a case for each
// gate, one for each incident, one for the measurement itself, and one for the wrapped command if there was one.
//
// A gate that failed is a failure. A gate that the error bars cannot decide, and a measurement that did not do its
// work, are errors. A run without gates has a skipped case that says so: it cannot have passed anything.
func JUnit(w io.Writer, tl *model.Timeline, _ Options) error {
	suite := junit.Suite{
		Name: "lapse " + document.Clean(subject(tl.Run)), Time: junit.Seconds(tl.Run.Duration),
		Timestamp: tl.T0.UTC().Format("2006-01-02T15:04:05"),
		Properties: []junit.Property{
			{Name: "run", Value: document.Clean(tl.Run.ID)},
			{Name: "lapse", Value: document.Clean(tl.Tool.Version)},
			{Name: "exitCode", Value: fmt.Sprint(tl.Verdict.ExitCode)},
		},
	}
	for _, c := range slices.Concat(gateCases(tl), incidentCases(tl), []junit.Case{validCase(tl)}) {
		suite.Add(c)
	}
	if c := tl.Run.Command; c != nil {
		suite.Add(commandCase(c, wording.LastWords(tl)))
	}
	suite.Output = cleanLines(
		slices.Concat(
			[]string{tl.Said.Headline, tl.Said.Extent}, texts(tl.Said.Caveats),
			[]string{"measured: " + tl.Said.Measured, measured(tl)}, preflightLines(tl),
		),
	)
	return junit.Write(w, suite)
}

func gateCases(tl *model.Timeline) []junit.Case {
	if len(tl.Verdict.Gates) == 0 {
		return []junit.Case{{Name: "gates", Time: "0", Skipped: &junit.Note{
			Message: "no gate was set: this run could not fail", Text: document.Clean(tl.Said.Headline),
		}}}
	}
	var cases []junit.Case
	for _, g := range tl.Verdict.Gates {
		cases = append(cases, gateCase(tl, g))
	}
	return cases
}

func gateCase(tl *model.Timeline, g model.GateResult) junit.Case {
	expr, value := document.Clean(g.Expr), gateValue(g)
	c := junit.Case{Name: "gate: " + expr, Time: "0"}
	switch g.Outcome {
	case model.GatePass:
		if g.Proven != model.GatePass {
			c.Skipped = &junit.Note{Message: expr + ": " + g.Said, Text: value}
			break
		}
		c.Output = value
	case model.GateFail:
		c.Failures = []junit.Note{{Message: expr + ": " + value, Type: "gate", Text: document.Clean(tl.Said.Headline)}}
	default:
		c.Error = &junit.Note{
			Message: expr + ": " + value + ": the error bars cannot decide it",
			Type:    "undecided",
			Text:    document.Clean(tl.Said.Headline),
		}
	}
	return c
}

// validCase is a case of its own, so that a pipeline does not take little evidence for good evidence.
func validCase(tl *model.Timeline) junit.Case {
	figures := document.Clean(strings.Join(validityParts(tl, targetNames(tl, documentNames)), " · "))
	c := junit.Case{Name: "the measurement is valid", Time: "0"}
	switch sound := tl.Said.Soundness; {
	case tl.Run.Live:
		c.Error = &junit.Note{Message: "the run goes on", Type: "live", Text: figures}
	case tl.Run.Truncated:
		c.Error = &junit.Note{
			Message: document.Clean(tl.Run.Recorded(quantity.Span) + ": " + tl.Run.Aborted),
			Type:    "aborted",
			Text:    figures,
		}
	case tl.Run.Aborted != "":
		c.Error = &junit.Note{Message: document.Clean("aborted: " + tl.Run.Aborted), Type: "aborted", Text: figures}
	case sound != model.Valid:
		c.Error = doubtNote(tl, "measurement: "+string(sound), figures)
	case tl.Verdict.Result == model.Inconclusive && !anyGate(tl, model.GateUndecided):
		c.Error = doubtNote(tl, "what was measured does not answer whether requests are lost", figures)
	default:
		c.Output = figures
	}
	return c
}

func doubtNote(tl *model.Timeline, message, figures string) *junit.Note {
	reasons := document.Clean(strings.Join(tl.Verdict.Reasons, "; "))
	return &junit.Note{Message: message, Type: "inconclusive", Text: reasons + "\n" + figures}
}

// commandCase is there because a command that failed ends lapse with an exit code of its own.
func commandCase(command *model.Command, said []string) junit.Case {
	c := junit.Case{Name: "the command succeeded", Time: "0", Output: document.Clean(strings.Join(command.Args, " "))}
	switch trouble := command.Trouble(); {
	case trouble != "":
		c.Failures = []junit.Note{{Message: trouble, Type: "command", Text: cleanLines(
			append([]string{c.Output}, said...),
		)}}
		c.Output = ""
	case command.Start != nil && command.End != nil:
		c.Time = junit.Seconds(*command.End - *command.Start)
	}
	return c
}

// incidentCases are one case for each incident. It is a failure where the run failed a gate. Else no gate forbids it:
// then it is skipped, which pipelines show with its text.
func incidentCases(tl *model.Timeline) (cases []junit.Case) {
	all := model.MostHarmful(tl.Incidents)
	for _, in := range all[:min(len(all), maxIncidents)] {
		message := document.Clean(in.Said.Headline)
		n := &junit.Note{Message: message, Type: "incident", Text: cleanLines(answerLines(&in.Said))}
		c := junit.Case{
			Name: document.Clean(fmt.Sprintf("incident %d, set off by: %s", in.ID, in.Said.SetOffBy)), Time: "0",
		}
		switch {
		case anyGate(tl, model.GateFail):
			c.Failures = []junit.Note{*n}
		case len(tl.Verdict.Gates) == 0:
			c.Skipped = &junit.Note{Message: "no gate was set: " + message, Text: n.Text}
		default:
			c.Skipped = &junit.Note{Message: "no gate failed: " + message, Text: n.Text}
		}
		cases = append(cases, c)
	}
	return cases
}

func anyGate(tl *model.Timeline, outcome model.GateOutcome) bool {
	return slices.ContainsFunc(tl.Verdict.Gates, func(g model.GateResult) bool { return g.Outcome == outcome })
}

// answerLines returns an incident in lines: when, what, why, and what to do.
func answerLines(said *model.IncidentSaid) []string {
	lines := []string{"when: " + said.When}
	for _, l := range said.What {
		lines = append(lines, "what: "+l.Of+": "+l.Text)
	}
	lines = append(lines, "why: "+said.Why)
	for _, p := range said.Phases {
		lines = append(lines, "  "+p.When+" "+p.Text)
	}
	for _, text := range said.Do {
		lines = append(lines, "do: "+text)
	}
	if said.Patch != "" {
		lines = append(lines, strings.Split(said.Patch, "\n")...)
	}
	return append(lines, said.Explain)
}

// cleanLines makes lines harmless, and one text.
func cleanLines(lines []string) string {
	var out []string
	for _, line := range lines {
		if line == "" {
			continue
		}
		out = append(out, document.Clean(line))
	}
	return strings.Join(out, "\n")
}
