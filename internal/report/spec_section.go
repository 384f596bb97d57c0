package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/quantity"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// A spec is the part of a run's spec that its report shows.
type spec struct {
	Targets, Kinds, Headers, HeadersFrom, Signs []string
	OnNode, Selector                            string
	AllNamespaces                               bool
	Rate, TotalRate                             float64
	Pacing, Method, Hammer                      string
	Connections                                 int
	Held                                        int
	Heartbeat                                   time.Duration
	Timeout, Baseline, Duration, Settle         time.Duration
	Armed                                       bool
	IdleRate                                    float64
}

// specSection says in detail how the run was made.
func specSection(v *view) document.Section {
	var asked spec
	if json.Unmarshal(v.Run.Spec, &asked) != nil {
		return document.Section{}
	}
	return document.Section{
		Title: "asked", Tight: true, Blocks: []document.Block{document.Note{Text: strings.Join(asked.parts(), " · ")}},
	}
}

func (s spec) parts() []string {
	parts := []string{
		s.subject(),
	}
	if rated := slices.DeleteFunc(slices.Clone(s.Kinds), func(kind string) bool {
		return kind == string(timeline.Held)
	}); len(rated) > 0 {
		parts = append(parts, fmt.Sprintf("%s/s each for %s", quantity.Number(s.Rate), strings.Join(rated, ", ")))
	}
	if s.Held > 0 {
		parts = append(parts, fmt.Sprintf("%d held, a heartbeat each %s", s.Held, quantity.Span(s.Heartbeat)))
	}
	if s.TotalRate > 0 {
		parts = append(parts, quantity.Number(s.TotalRate)+"/s in all")
	}
	if slices.Contains(s.Kinds, string(timeline.Reused)) {
		parts = append(parts, quantity.Count(s.Connections, "connection"))
	}
	parts = append(
		parts, "timeout "+quantity.Span(s.Timeout), s.Pacing+" pacing", "baseline "+quantity.Span(s.Baseline),
	)
	for _, optional := range []struct {
		given bool
		text  string
	}{
		{!slices.Contains([]string{"", "GET"}, s.Method), s.Method},
		{s.Duration > 0, "for " + quantity.Span(s.Duration)},
		{s.Armed, fmt.Sprintf("armed, %s/s each until the first sign", quantity.Number(s.IdleRate))},
		{len(s.Signs) > 0, "signs " + strings.Join(s.Signs, ", ")},
		{s.Settle > 0, "settle " + quantity.Span(s.Settle)},
		{len(s.Headers) > 0, "headers " + strings.Join(s.Headers, ", ")},
		{len(s.HeadersFrom) > 0, "headers from Secrets " + strings.Join(s.HeadersFrom, ", ")},
		{s.Hammer != "", "hammer " + s.Hammer},
	} {
		if optional.given {
			parts = append(parts, optional.text)
		}
	}
	return parts
}

// subject is what was to be measured: the targets, or how Services were to be chosen.
func (s spec) subject() string {
	switch {
	case s.OnNode != "":
		return strings.TrimSpace("Services on " + s.OnNode + " " + s.Selector)
	case s.AllNamespaces:
		return strings.TrimSpace("Services of all namespaces " + s.Selector)
	case s.Selector != "":
		return "Services " + s.Selector
	}
	return strings.Join(s.Targets, ", ")
}
