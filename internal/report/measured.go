package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// This file says below the headline what was measured.

// measured says what was measured, when, for how long and how hard.
func measured(tl *model.Timeline) string {
	parts := []string{subject(tl.Run)}
	if judged := tl.Judged(); len(judged) > 0 {
		rate := sum(judged, func(t model.Target) float64 { return t.Rate })
		asked := quantity.Number(rate) + "/s asked" + before(judged)
		parts = append(parts, quantity.Count(len(judged), "target")+", "+asked)
	}
	if held := sum(tl.Held, func(h model.Held) int { return h.Connections }); held > 0 {
		parts = append(parts, quantity.Number(float64(held))+" held")
	}
	parts = append(parts, tl.T0.UTC().Format("2006-01-02 15:04:05")+" UTC", quantity.Span(tl.Run.Duration))
	if c := tl.Run.Command; c != nil {
		text := strings.Join(c.Args, " ")
		if trouble := c.Trouble(); trouble != "" && !tl.Run.Live {
			text += " (" + trouble + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// before goes on with the rate before it was raised; "" if it was not.
func before(judged []model.Target) string {
	var at time.Duration
	for i := range judged {
		if r := judged[i].Rerated; r != nil {
			at = max(at, r.At.Latest)
		}
	}
	if at == 0 {
		return ""
	}
	rate := sum(judged, func(t model.Target) float64 { return t.RateAt(0) })
	return fmt.Sprintf(" from %s on, %s/s before", quantity.Span(at), quantity.Number(rate))
}

// mostSubjects is how many Services are named as what was measured; of more, their number is given.
const mostSubjects = 6

// subject names what was measured: each Service once, with the measured ports if it has several.
func subject(run model.RunInfo) string {
	if len(run.Services) > mostSubjects {
		namespaces := map[string]bool{}
		for _, s := range run.Services {
			namespaces[s.Namespace] = true
		}
		services := fmt.Sprintf("%d Services in %s", len(run.Services), quantity.Count(len(namespaces), "namespace"))
		return strings.Join(append([]string{services}, run.URLs...), ", ")
	}
	var names []string
	for _, s := range run.Services {
		name := "svc " + s.Namespace + "/" + s.Name
		if len(s.Measured) > 1 || len(s.Measured) == 1 && len(s.Ports) > 1 {
			name += ":" + strings.Join(s.Measured, ",")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(append(names, run.URLs...), ", ")
}

// toneOf returns the colour of a verdict.
func toneOf(tl *model.Timeline) document.Style {
	switch {
	case tl.Run.Live:
		return document.Cyan
	case tl.Verdict.Result == model.Fail, tl.Said.Word == "COMMAND FAILED":
		return document.RedBold
	case tl.Verdict.Result == model.Pass:
		return document.Green
	case tl.Verdict.Result == model.Inconclusive:
		return document.Yellow
	}
	return document.Bold
}
