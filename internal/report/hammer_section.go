package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// mostHammerErrors is how many of the background load's errors are shown.
const mostHammerErrors = 5

// heyNote says what the background load's figures are worth.
const heyNote = "not part of the verdict; " +
	"hey re-sends silently and ignores cut-off bodies: its errors are the least there were"

// hammerSection has what the background load saw: it is no evidence, but says how busy the Service was.
func hammerSection(v *view) document.Section {
	h := v.Hammer
	if h == nil {
		return document.Section{}
	}
	s := document.Section{Title: "background load", Blocks: []document.Block{
		document.Note{Text: "hey " + h.Args + " · " + hammerTime(v.Timeline)},
	}}
	if h.Error != "" {
		s.Blocks = append(s.Blocks, document.Note{Text: "failed: " + h.Error, Tone: document.Yellow})
	}
	if h.Summary == nil {
		return s
	}
	saw := document.Note{Text: hammerText(h.Summary)}
	for _, line := range hammerErrors(h.Summary.Errors) {
		saw.Details = append(saw.Details, document.Note{Label: "error", Text: line, Tone: document.Yellow})
	}
	s.Blocks = append(s.Blocks, saw, document.Note{Label: "note", Text: heyNote, Tone: document.Dim})
	return s
}

// hammerTime says when the background load ran, and if that was not until the run's end.
func hammerTime(tl *model.Timeline) string {
	h := tl.Hammer
	clock := func(at time.Duration) string { return wallClock(tl, at, "15:04:05.000") }
	switch {
	case h.Start == nil:
		return "never began"
	case h.End == nil && tl.Run.Live:
		return "since " + clock(*h.Start)
	case h.End == nil:
		return clock(*h.Start) + " until an end that was not recorded"
	}
	text := clock(*h.Start) + " to " + clock(*h.End)
	if before := hammerGoal(tl) - *h.End; before > 0 && !tl.Run.Live {
		text += fmt.Sprintf(", %s before the run's end", quantity.Span(before))
	}
	return text
}

// hammerGoal is when the run ended by its own event: the load is stopped right after.
func hammerGoal(tl *model.Timeline) time.Duration {
	for _, e := range slices.Backward(tl.Events) {
		if e.Kind == timeline.RunPhase && e.To == "ended" {
			return e.Seen
		}
	}
	return tl.Run.Duration
}

func hammerText(s *model.HammerSummary) string {
	parts := []string{fmt.Sprintf("%s at %s/s", quantity.Count(s.Requests, "request"), quantity.Rate(s.Rate))}
	if l := s.Latency; l != nil {
		latency := "replies after a mean of " + quantity.Span(l.Mean)
		if l.P99 > 0 {
			latency += ", P99 " + quantity.Span(l.P99)
		}
		parts = append(parts, latency+", slowest "+quantity.Span(l.Max))
	}
	if len(s.Statuses) > 0 {
		parts = append(parts, "status "+statusCounts(s.Statuses))
	}
	parts = append(parts, quantity.Count(s.Failed(), "error"))
	if s.Unanswered > 0 {
		parts = append(parts, fmt.Sprintf("%d more were unanswered a second after its end", s.Unanswered))
	}
	return strings.Join(parts, " · ")
}

// statusCounts names each status with its count, the most frequent first.
func statusCounts(counts map[string]int) string {
	var parts []string
	for _, name := range byCount(counts) {
		parts = append(parts, fmt.Sprintf("%s × %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// byCount are the names, the most frequent first.
func byCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// hammerErrors are the commonest errors, each on its line, and how many others there were.
func hammerErrors(errors map[string]int) []string {
	var lines []string
	rest := 0
	for i, text := range byCount(errors) {
		if i < mostHammerErrors {
			lines = append(lines, fmt.Sprintf("%d × %s", errors[text], text))
			continue
		}
		rest += errors[text]
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("%d × other errors (all in timeline.json)", rest))
	}
	return lines
}

// hammerChanged says that the background load begins or ends, while the run goes on.
func hammerChanged(e model.Event) string {
	switch {
	case e.To == "running":
		return "background load: hey " + e.Detail
	case strings.HasPrefix(e.Detail, "{"): // its summary
		return "background load ended"
	}
	return "background load failed" + detailOf(e)
}
