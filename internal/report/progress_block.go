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
	"lapse/correlate/wording"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// This file writes the block of a terminal that is redrawn while a run goes on: how far it is, and how it stands.

// blockOf is the run as a block of lines.
func (p *Progress) blockOf(tl *model.Timeline, now time.Duration) []byte {
	page := p.newPage()
	rate := page.Span("  "+rateText(tl), document.Dim)
	if silence := p.silence(); silence != "" {
		rate = page.Span("  "+silence, document.Yellow)
	}
	page.Line(
		page.Span(" "+cmp.Or(phase(tl), "starting"), document.Bold),
		page.Span("  "+p.clockText(tl, now), document.Normal),
		rate,
	)
	counts := []document.Span{page.Span(" "+countText(tl), document.Normal)}
	for _, h := range tl.Held {
		tone := document.Normal
		if h.Standing < h.Connections {
			tone = document.RedBold
		}
		counts = append(counts, page.Span(fmt.Sprintf("  held %d/%d", h.Standing, h.Connections), tone))
	}
	if w := current(tl); w != nil {
		failing := fmt.Sprintf("  FAILING %s %s, %s", w.Target, quantity.Length(w.Length, true), wording.Errors(w))
		counts = append(counts, page.Span(failing, document.RedBold))
	}
	page.Line(counts...)
	if text := clusterText(tl); text != "" {
		page.Line(page.Span(" "+text, document.Normal))
	}
	if unwell := health(tl); len(unwell) > 0 {
		page.Line(page.Span(" "+strings.Join(unwell, " · "), document.Yellow))
	} else {
		page.Line(page.Span(" prober ok", document.Dim))
	}
	return page.Bytes()
}

func (p *Progress) clockText(tl *model.Timeline, now time.Duration) string {
	switch {
	case p.opts.Total > 0:
		return fmt.Sprintf("%s of %s", seconds(now), quantity.Span(p.opts.Total))
	case phase(tl) == "baseline":
		return fmt.Sprintf("%s of %s", seconds(now), quantity.Span(tl.Run.Baseline))
	default:
		return seconds(now)
	}
}

// seconds renders a time that ticks: in whole seconds.
func seconds(d time.Duration) string { return quantity.Span(d.Truncate(time.Second)) }

// phase is the run's phase by its events.
func phase(tl *model.Timeline) string {
	for _, e := range slices.Backward(tl.Events) {
		if e.Kind == timeline.RunPhase {
			return e.To
		}
	}
	return ""
}

func rateText(tl *model.Timeline) string {
	targets := tl.Judged()
	return fmt.Sprintf("%s/s of %s/s",
		quantity.Number(sum(targets, func(t model.Target) float64 { return t.AchievedRate })),
		quantity.Number(sum(targets, func(t model.Target) float64 { return t.Rate })))
}

func countText(tl *model.Timeline) string {
	targets := tl.Judged()
	return fmt.Sprintf("sent %d, failed %d",
		sum(targets, func(t model.Target) int { return t.Sent }),
		sum(targets, func(t model.Target) int { return t.Failed }))
}

// current is the window that is open now, if any.
func current(tl *model.Timeline) *model.Window {
	for i := range tl.Windows {
		if w := &tl.Windows[i]; w.Open.End && w.Live && w.Kind != model.Slow {
			return w
		}
	}
	return nil
}

func clusterText(tl *model.Timeline) string {
	var parts []string
	if ready, known := readyNow(tl); known {
		parts = append(parts, quantity.Count(ready, "endpoint")+" ready")
	}
	leaving := count(tl.Pods, func(p model.Pod) bool { return strings.HasPrefix(stateNow(p), "terminating") })
	if leaving > 0 {
		parts = append(parts, quantity.Count(leaving, "Pod")+" terminating")
	}
	coming := count(tl.Pods, func(p model.Pod) bool {
		return slices.Contains([]string{"pending", "creating", "running"}, stateNow(p))
	})
	if coming > 0 {
		parts = append(parts, quantity.Count(coming, "Pod")+" starting")
	}
	return strings.Join(parts, " · ")
}

func stateNow(p model.Pod) string {
	if len(p.States) == 0 {
		return ""
	}
	return p.States[len(p.States)-1].State
}

// readyNow is the number of ready endpoints; unknown if no endpoint was seen.
func readyNow(tl *model.Timeline) (ready int, known bool) {
	for _, service := range tl.Services {
		if last := len(service.Endpoints) - 1; last >= 0 {
			ready, known = ready+service.Endpoints[last].Ready, true
		}
	}
	return ready, known
}

// health says what keeps the prober from measuring well; nothing if all is well.
func health(tl *model.Timeline) []string {
	var unwell, reasons []string
	short := map[string][]string{} // by reason, what each target misses
	miss := func(reason, text string) {
		if short[reason] == nil {
			reasons = append(reasons, reason)
		}
		short[reason] = append(short[reason], text)
	}
	for _, t := range tl.Targets {
		switch {
		case t.Kind == timeline.Control && t.Failed > 0:
			unwell = append(unwell, fmt.Sprintf("control failed %d", t.Failed))
		case !t.Kind.Judged() || t.Sent == 0:
		case t.Coverage < 0.99:
			miss(wording.Unobserved(verdict.WhyUnobserved(tl, t.Name)), fmt.Sprintf(
				"%s coverage %s", t.Name, quantity.Coverage(t.Coverage),
			))
		case t.Late*100 > t.Sent:
			late := quantity.Percent(float64(t.Late) / float64(t.Sent))
			miss(wording.ProberStalled, fmt.Sprintf("%s late %s", t.Name, late))
		}
	}
	for i, reason := range reasons {
		reasons[i] = reason + ": " + strings.Join(short[reason], ", ")
	}
	return append(reasons, unwell...)
}
