package report

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// This file says what a cause rests on, and what else it could be.

// proof returns the evidence of an incident's cause and its rivals, for the window where it was measured best.
func proof(c *model.IncidentCause, windows []model.Window) []document.Note {
	w := measuredIn(c, windows)
	notes := evidence(w, c.Evidence)
	if end := w.Ended; end != nil &&
		!slices.ContainsFunc(c.Evidence, func(e model.Evidence) bool { return e.Event == end.Event }) {
		notes = append(notes, document.Note{Label: "end", At: sinceStart(w, end.At), Text: end.Text})
	}
	for _, rival := range c.Rivals {
		notes = append(notes, document.Note{Label: "rival", Text: rival, Tone: document.Dim})
	}
	return notes
}

// measuredIn returns the window that a cause's text and evidence are about.
func measuredIn(c *model.IncidentCause, windows []model.Window) model.Window {
	var first *model.Window
	for i := range windows {
		w := &windows[i]
		if !slices.Contains(c.Windows, w.ID) {
			continue
		}
		if len(w.Causes) > 0 && w.Causes[0].Text == c.Text {
			return *w
		}
		if first == nil {
			first = w
		}
	}
	if first == nil {
		return model.Window{}
	}
	return *first
}

// evidence returns the facts that a cause rests on, each at its distance from the window's start.
func evidence(w model.Window, facts []model.Evidence) []document.Note {
	facts = slices.SortedStableFunc(slices.Values(facts), func(a, b model.Evidence) int {
		return cmp.Compare(when(a), when(b))
	})
	var notes []document.Note
	for _, fact := range facts {
		notes = append(notes, document.Note{Label: "why", At: sinceStart(w, fact.At), Text: fact.Text})
	}
	return notes
}

// when orders evidence: what has no instant comes last.
func when(fact model.Evidence) time.Duration {
	if fact.At == nil {
		return 1<<63 - 1
	}
	return fact.At.Latest
}

// vague is from when on an instant is known so badly that only its later bound is worth reading.
const vague = 200 * time.Millisecond

// sinceStart returns an instant's distance from T, when the window's first failure was known: "T−83 ms ±2",
// "≤ T−83 ms".
func sinceStart(w model.Window, at *model.Instant) string {
	switch {
	case at == nil:
		return ""
	case at.Earliest <= model.Unbounded:
		return "before"
	}
	offset := model.Instant{Earliest: at.Earliest - w.Start.Latest, Latest: at.Latest - w.Start.Latest}
	if offset.Latest-offset.Earliest > vague {
		return "≤ T" + quantity.Offset(model.Instant{Earliest: offset.Latest, Latest: offset.Latest})
	}
	return "T" + quantity.Offset(offset)
}
