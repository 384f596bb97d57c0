package wording

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file says what a reader wants to know first of a run: what failed, how much, and what that is worth.

// mostCommand is how many characters of the wrapped command a headline has.
const mostCommand = 40

// during says what the run was wrapped around: " while kubectl drain node1 ran"; "" if there was no command.
func during(tl *model.Timeline) string {
	c := tl.Run.Command
	if c == nil || c.Start == nil {
		return ""
	}
	text := strings.Join(c.Args, " ")
	if runes := []rune(text); len(runes) > mostCommand {
		text = strings.TrimSpace(string(runes[:mostCommand-1])) + "…"
	}
	return " while " + text + " ran"
}

// subject names what was measured: "shop/web: "; "" if that is more than one thing.
func subject(tl *model.Timeline) string {
	services := map[string]bool{}
	for _, s := range tl.Run.Services {
		services[s.Namespace+"/"+s.Name] = true
	}
	for _, url := range tl.Run.URLs {
		services[url] = true
	}
	if len(services) != 1 {
		return ""
	}
	for name := range services {
		return name + ": "
	}
	return ""
}

// several reports whether a run has more than one Service or URL, so that each line names its own.
func several(tl *model.Timeline) bool {
	return (len(tl.Run.Services) > 0 || len(tl.Run.URLs) > 1) && subject(tl) == ""
}

// extent says which share of the requests that lost most failed, for how long, seen from where, and how much full
// outage that equals.
func (s *scene) extent() string {
	tl := s.tl
	if tl.Verdict.Failed == 0 {
		return ""
	}
	var failing []*model.Incident
	var windows []*model.Window
	for i := range tl.Incidents {
		if in := &tl.Incidents[i]; in.Failed > 0 {
			failing = append(failing, in)
			windows = append(windows, s.windowsOf(in)...)
		}
	}
	var parts []string
	if kinds := s.lost(windows); len(kinds) > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s failed", quantity.Percent(kinds[0].share()), kinds[0].of))
	}
	if from, to, ok := failedBetween(failing); ok && to > from {
		text := " for " + quantity.Span(to-from)
		switch n := len(failing); {
		case n > 1:
			text = fmt.Sprintf(" in %d incidents within %s", n, quantity.Span(to-from))
		case again(windows):
			text = " at times within " + quantity.Span(to-from)
		}
		parts = append(parts, text)
	}
	parts = append(parts, s.seenFrom(windows), "; "+equals(tl))
	return strings.TrimPrefix(strings.Join(parts, ""), "; ")
}

// again reports whether the requests of a target were well between two of these windows.
func again(windows []*model.Window) bool {
	known := map[string]bool{}
	for _, w := range windows {
		if known[w.Target] {
			return true
		}
		known[w.Target] = true
	}
	return false
}

// failedBetween returns when the first and the last request of incidents failed.
func failedBetween(incidents []*model.Incident) (from, to time.Duration, ok bool) {
	for _, in := range incidents {
		if in.FailedFrom == nil || in.FailedTo == nil {
			continue
		}
		if !ok || *in.FailedFrom < from {
			from = *in.FailedFrom
		}
		if !ok || *in.FailedTo > to {
			to = *in.FailedTo
		}
		ok = true
	}
	return from, to, ok
}

// seenFrom says from which of several nodes failures were seen: ", from all 3 nodes".
func (s *scene) seenFrom(windows []*model.Window) string {
	all, failing := map[string]bool{}, map[string]bool{}
	for i := range s.tl.Targets {
		if t := &s.tl.Targets[i]; t.Kind.Judged() && t.Node != "" {
			all[t.Node] = true
		}
	}
	for _, w := range windows {
		if t := s.targets[w.Target]; t != nil && t.Node != "" && w.Failed > 0 {
			failing[t.Node] = true
		}
	}
	switch {
	case len(all) < 2 || len(failing) == 0:
		return ""
	case len(all) == len(failing):
		return fmt.Sprintf(", from all %d nodes", len(all))
	case len(failing) == 1:
		for node := range failing {
			return fmt.Sprintf(", from %s alone of %d nodes", node, len(all))
		}
	}
	return fmt.Sprintf(", from %d of %d nodes", len(failing), len(all))
}

// equals says how long a full outage would have been that loses as much.
func equals(tl *model.Timeline) string {
	total, open := tl.Verdict.Downtime.Total, tl.Verdict.Downtime.Open
	length := quantity.Length(total, open || tooLittle(tl) && total.Min > 0)
	switch {
	case length == quantity.UnknownLength:
		return "how much full outage that equals is not known"
	case affected(tl) > 1:
		return "equals " + length + " of full outage at the worst target"
	}
	return "equals " + length + " of full outage"
}

// exitText says the exit code, and what made it so.
func exitText(tl *model.Timeline, why string) string {
	text := fmt.Sprintf("exit %d", tl.Verdict.ExitCode)
	var failed []string
	for _, g := range tl.Verdict.Gates {
		if g.Outcome == model.GateFail {
			failed = append(failed, g.Expr)
		}
	}
	switch {
	case why != "":
		return text + " (" + why + ")"
	case len(failed) > 0:
		return text + " (" + strings.Join(failed, ", ") + ")"
	case len(tl.Verdict.Gates) == 0 && tl.Verdict.Result == model.Ungated:
		return text + " (no --fail-if was given)"
	}
	return text
}

// measured says in a line how good the measurement was, what preflight had said of it, and the exit code.
func measured(tl *model.Timeline, exit string) string {
	if tl.Run.Live {
		return "so far; the run goes on"
	}
	parts := []string{
		fmt.Sprintf("%s, %s observed", soundness(tl), quantity.Coverage(tl.Verdict.Coverage)),
	}
	if text := foretold(tl.Scorecard); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(append(parts, exit), " · ")
}

// foretold says what preflight had predicted of what happened.
func foretold(c *model.Scorecard) string {
	if c == nil {
		return ""
	}
	var rules, parts []string
	for _, p := range c.Predictions {
		name := p.Prediction.Rule + " " + p.Prediction.Name
		if p.Outcome == model.Confirmed && !slices.Contains(rules, name) {
			rules = append(rules, name)
		}
	}
	if more := len(rules) - 2; more > 0 {
		rules = append(rules[:2:2], fmt.Sprintf("%d more", more))
	}
	if len(rules) > 0 {
		parts = append(parts, "preflight had predicted it ("+strings.Join(rules, ", ")+")")
	}
	if c.Missed > 0 {
		parts = append(parts, fmt.Sprintf("preflight missed %s", quantity.Count(c.Missed, "cause")))
	}
	if c.Refuted > 0 {
		parts = append(parts, fmt.Sprintf("%s not seen this time", quantity.Count(c.Refuted, "prediction")))
	}
	return strings.Join(parts, ", ")
}

// keepServing says in a sentence what serving longer would have left of the failures.
func keepServing(k *model.KeepServing) string {
	if k == nil || len(k.Left) == 0 {
		return ""
	}
	var parts []string
	last := k.Left[len(k.Left)-1]
	for _, left := range k.Left {
		shown := left.Longer == 500*time.Millisecond || left.Longer == time.Second || left.Longer == 2*time.Second
		switch {
		case left != last && (!shown || left.Longer > last.Longer):
		case len(parts) == 0:
			parts = append(parts, fmt.Sprintf("%s would remain had each Pod served %s longer",
				leftText(left), quantity.Span(left.Longer)))
		default:
			parts = append(parts, leftText(left)+" with "+quantity.Span(left.Longer))
		}
	}
	return "Of the " + quantity.Count(k.Failed, "failure") + ", " + strings.Join(parts, ", ")
}

func leftText(left model.ServedLonger) string {
	switch {
	case left.Max == 0:
		return "none"
	case left.Min == left.Max:
		return fmt.Sprint(left.Max)
	}
	return fmt.Sprintf("%d to %d", left.Min, left.Max)
}

// kindWords name the requests of a kind of target.
var kindWords = map[timeline.TargetKind]string{
	timeline.New:    "new connections",
	timeline.Reused: "requests on open connections",
	timeline.Held:   "held connections",
}

// classWords say how requests of a class failed.
var classWords = map[string]string{
	"eof":              "closed without an answer",
	"timeout_connect":  "no answer to connect",
	"timeout_response": "no answer",
	"dns":              "the name did not resolve",
	"tls":              "TLS failed",
	"http_5xx":         "status 5xx",
	"http_4xx":         "status 4xx",
	"body":             "the answer was cut short or not as expected",
	"no_slot":          "no connection was free",
}
