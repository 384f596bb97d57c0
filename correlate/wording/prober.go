package wording

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// prober says how good the measurement was, in figures. What is to be said of single targets is left to reports.
func prober(tl *model.Timeline) []model.Line {
	v := &tl.Verdict.Validity
	lines := []model.Line{}
	add := func(text string) { lines = append(lines, model.Line{Kind: model.LineFigure, Text: text}) }
	add("coverage " + quantity.Coverage(tl.Verdict.Coverage))
	lines = append(lines, lateness(tl))
	if v.Local > 0 {
		requests := quantity.Count(v.Local, "request")
		add(fmt.Sprintf("%s: %s without evidence (%s)", ProberFailed, requests, v.Shortage))
	}
	add("control " + cmp.Or(v.Control, "absent"))
	add(fmt.Sprintf("watch gaps %d", v.WatchGaps))
	if len(v.LanesOff) > 0 {
		add("not watched: " + strings.Join(v.LanesOff, ", "))
	}
	if v.NotProbed > 0 {
		add(quantity.Count(v.NotProbed, "Pod") + " not probed directly")
	}
	for _, text := range nodesMissed(tl) {
		lines = append(lines, model.Line{Kind: model.LineNode, Text: text})
	}
	if proves := proves(tl); proves != "" {
		add("a success is " + proves)
	}
	if tl.Run.Unsaved != "" {
		add("not all on disk: " + tl.Run.Unsaved)
	}
	return lines
}

// lateness says how far the prober fell behind: one thing, whether requests were late, were not sent or were spoiled
// by it.
func lateness(tl *model.Timeline) model.Line {
	v := &tl.Verdict.Validity
	late := "late " + quantity.Percent(v.Late)
	if v.NotSent == v.Local && v.Stalls == 0 {
		return model.Line{Kind: model.LineFigure, Text: late}
	}
	text := ProberStalled + ": nothing unobserved, "
	if unobserved := stalled(tl); unobserved > 0 {
		text = ProberStalled + ": " + quantity.Span(unobserved) + " unobserved, "
	}
	if lost := v.NotSent - v.Local; lost > 0 {
		text += quantity.Count(lost, "request") + " without evidence, "
	}
	return model.Line{Kind: model.LineStalled, Text: text + late}
}

// stalled returns for how long the prober kept the worst judged target from being observed.
func stalled(tl *model.Timeline) time.Duration {
	totals := map[string]time.Duration{}
	for _, u := range tl.Unobserved {
		if Unobserved(u.Reason) == ProberStalled {
			totals[u.Target] += u.End - u.Start
		}
	}
	return slices.Max(append(slices.Collect(maps.Values(totals)), 0))
}

// nodesMissed names the nodes that were to be measured from, and were not from the beginning to the end.
func nodesMissed(tl *model.Timeline) (texts []string) {
	for _, n := range tl.ShortNodes() {
		if n.Target != "" {
			texts = append(texts, Silence(n))
		}
	}
	for i := range tl.Events {
		switch e := &tl.Events[i]; {
		case e.Kind != timeline.ProberChanged || e.Object.IsZero():
		case e.To == "missing":
			texts = append(texts, "not measured from "+e.Object.Name+": "+e.Detail)
		case e.To == "lost":
			texts = append(texts, "the prober on "+e.Object.Name+" was lost: "+e.Detail)
		}
	}
	return texts
}

// proves returns what a success proves; "" unless all judged targets agree. The headline names those that are blind.
func proves(tl *model.Timeline) string {
	common := ""
	for i, t := range tl.Judged() {
		if i > 0 && t.Proves != common || t.Blind {
			return ""
		}
		common = t.Proves
	}
	return common
}
