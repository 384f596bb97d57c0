package report

import (
	"fmt"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/chart"
	"lapse/internal/report/document"
)

// mostAnswers is how many incidents a summary tells in full; of the others it says one line each, up to maxIncidents.
const mostAnswers = 3

// answersSection says of each incident, the most harmful first, when, what, why, and what to do.
func answersSection(v *view) document.Section {
	var s document.Section
	all := mostHarmful(v.Incidents)
	done := map[string]int{} // the incident that something to do was said of
	for i, in := range all {
		switch {
		case i == maxIncidents:
			more := quantity.Count(len(all)-i, "more incident")
			s.Blocks = append(s.Blocks, document.Note{Text: "and " + more + ": see timeline.json", Tone: document.Dim})
		case i < mostAnswers:
			if len(all) > 1 {
				title := fmt.Sprintf("incident %d of %d", in.ID, len(all))
				s.Blocks = append(s.Blocks, document.Note{Text: title, Tone: document.Bold})
			}
			s.Blocks = append(s.Blocks, answer(v, &in, done)...)
		case i < maxIncidents:
			title := fmt.Sprintf("incident %d of %d", in.ID, len(all))
			s.Blocks = append(s.Blocks, document.Note{Label: title, Text: in.Said.Headline})
		}
	}
	return s
}

// answer returns the facts of one incident.
func answer(v *view, in *model.Incident, done map[string]int) []document.Block {
	said := &in.Said
	facts := []document.Block{
		document.Fact{Label: "when", Blocks: []document.Block{document.Note{Text: said.When}}},
		document.Fact{Label: "what", Blocks: lostBlocks(said.What)},
		document.Fact{Label: "why", Blocks: whyBlocks(said)},
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

// whyBlocks says the cause, what of that is not known, and how it went.
func whyBlocks(said *model.IncidentSaid) []document.Block {
	blocks := []document.Block{document.Note{Text: said.Why, Tone: document.Bold}}
	for _, l := range said.Lines {
		switch l.Kind {
		case model.LineError, model.LineEdge, model.LineNoEvidence, model.LineLive:
			if len(blocks) <= maxListed {
				blocks = append(blocks, document.Note{Text: l.Text, Tone: document.Dim})
			}
		}
	}
	wide := 0
	for _, p := range said.Phases {
		wide = max(wide, document.Columns(p.When))
	}
	for _, p := range said.Phases {
		blocks = append(blocks, document.Note{Label: padded(p.When, wide), Text: p.Text})
	}
	return blocks
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
	if said.Explain != "" {
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
	if len(v.Incidents) == 0 || v.Verbose {
		return document.Section{}
	}
	return chart.Incident(v.Timeline, &mostHarmful(v.Incidents)[0], v.Options.page())
}
