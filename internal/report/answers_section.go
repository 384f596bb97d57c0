package report

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/chart"
	"lapse/internal/report/document"
)

// mostAnswers is how many incidents a summary tells in full; of the others it says one line each, up to maxIncidents.
// A pass tells one alone, and of several one line each, up to mostOfPass.
const (
	mostAnswers = 3
	mostOfPass  = 4
)

// answersSection says of the most harmful incidents, by time, when, what, why, and what to do.
func answersSection(v *view) document.Section {
	var s document.Section
	full, shown := mostAnswers, maxIncidents
	if v.isShort() && len(v.Incidents) > 1 {
		full, shown = 0, mostOfPass
	}
	harm := map[int]int{} // the rank of incidents, by ID
	for i, in := range model.MostHarmful(v.Incidents) {
		harm[in.ID] = i
	}
	done := map[string]int{} // the incident that something to do was said of
	for i := range v.Incidents {
		in := &v.Incidents[i]
		title := fmt.Sprintf("incident %d of %d", in.ID, len(v.Incidents))
		switch rank := harm[in.ID]; {
		case rank < full:
			if len(v.Incidents) > 1 {
				s.Blocks = append(s.Blocks, document.Note{Text: title, Tone: document.Bold})
			}
			s.Blocks = append(s.Blocks, answer(v, in, done)...)
		case rank < shown:
			s.Blocks = append(s.Blocks, document.Note{Label: title, Text: in.Said.Headline})
		}
	}
	if more := len(v.Incidents) - shown; more > 0 {
		s.Blocks = append(s.Blocks, document.Note{Tone: document.Dim,
			Text: fmt.Sprintf("and %s that did less harm: see timeline.json", quantity.Count(more, "more incident"))})
	}
	return s
}

// answer returns the facts of one incident.
func answer(v *view, in *model.Incident, done map[string]int) []document.Block {
	said := &in.Said
	facts := []document.Block{
		document.Fact{Label: "when", Blocks: []document.Block{document.Note{Text: said.When}}},
		document.Fact{Label: "what", Blocks: lostBlocks(said.What)},
		document.Fact{Label: "why", Blocks: whyBlocks(v, in)},
	}
	if do := doBlocks(v, in, done); len(do) > 0 {
		facts = append(facts, document.Fact{Label: "do", Blocks: do})
	}
	return facts
}

func lostBlocks(lost []model.Lost) (blocks []document.Block) {
	wide := 0
	for _, l := range lost {
		wide = max(wide, document.Columns(l.Of))
	}
	for _, l := range lost {
		blocks = append(blocks, document.Note{Label: padded(l.Of, wide), Text: l.Text})
	}
	return blocks
}

// isShort reports whether a reader is told no more of the run's incidents than what they were: it passed.
func (v *view) isShort() bool { return v.Verdict.Result == model.Pass && !v.Verbose }

// whyBlocks says the cause, what of that is not known, and how it went.
func whyBlocks(v *view, in *model.Incident) []document.Block {
	said := &in.Said
	blocks := []document.Block{document.Note{Text: said.Why, Tone: document.Bold}}
	if v.isShort() {
		return blocks
	}
	for _, l := range said.Lines {
		switch l.Kind {
		case model.LineError, model.LineLive:
			if len(blocks) <= maxListed {
				blocks = append(blocks, document.Note{Text: l.Text, Tone: document.Dim})
			}
		}
	}
	phases := slices.DeleteFunc(slices.Clone(said.Phases), func(p model.Phase) bool { return saidByWhen(in, p) })
	wide := 0
	for _, p := range phases {
		wide = max(wide, document.Columns(p.When))
	}
	for _, p := range phases {
		blocks = append(blocks, document.Note{Label: padded(p.When, wide), Text: p.Text})
	}
	return blocks
}

// saidByWhen reports whether an instant is that of the first or the last failed request, which stand under WHEN.
func saidByWhen(in *model.Incident, p model.Phase) bool {
	return p.At.Earliest == p.At.Latest && in.FailedFrom != nil && in.FailedTo != nil &&
		(p.At.Latest == *in.FailedFrom || p.At.Latest == *in.FailedTo)
}

// doBlocks says what to do. What was said of another incident is only referred to.
func doBlocks(v *view, in *model.Incident, done map[string]int) (blocks []document.Block) {
	said := &in.Said
	for i, text := range said.Do {
		if first, known := done[text]; known {
			text = fmt.Sprintf("as for incident %d", first)
			blocks = append(blocks, document.Note{Text: text, Tone: document.Green})
			continue
		}
		done[text] = in.ID
		blocks = append(blocks, document.Note{Text: text, Tone: document.Green})
		if v.isShort() {
			return blocks
		}
		if i > 0 {
			continue
		}
		if said.Patch != "" {
			blocks = append(blocks, document.Code(said.Patch))
		}
		if curve := v.Said.KeepServing; curve != "" && done[curve] == 0 && ofRoutes(in) {
			done[curve] = in.ID
			blocks = append(blocks, document.Note{Text: curve})
		}
	}
	if said.Explain != "" && !v.isShort() {
		blocks = append(blocks, document.Note{Text: said.Explain, Verbatim: true})
	}
	return blocks
}

// ofRoutes reports whether an incident's first cause is what the keep-serving curve is about.
func ofRoutes(in *model.Incident) bool {
	return len(in.Causes) > 0 && in.Causes[0].Rule == "route-outlives-pod"
}

func padded(text string, columns int) string {
	return text + strings.Repeat(" ", max(0, columns-document.Columns(text)))
}

// momentSection draws the run around its most harmful incident.
func momentSection(v *view) document.Section {
	if len(v.Incidents) == 0 || v.Verbose || v.isShort() {
		return document.Section{}
	}
	return chart.Incident(v.Timeline, &model.MostHarmful(v.Incidents)[0], v.Options.page())
}
