package pods

import (
	"fmt"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// startup-race: a Pod's endpoint is ready before the Pod can serve: it has no readiness probe, or one that does not
// ask what matters. New connections that are routed to it are refused or get errors, at its share of the endpoints,
// until it serves.
//
//	endpoint  . . . . R R R R R R R R R R
//	svc       ok ok ok ok x ok x ok ok x ok ok      from when the endpoint was added
//	direct            x x x x x x x x x x ok ok     the young Pod itself, until its first answer
//	others    ok ok ok ok …

var StartupRace = rule.Rule{
	Name:  "startup-race",
	Doc:   "A Pod's endpoint was ready before the Pod could serve.",
	Needs: []rule.Need{rule.PodsWatched, rule.EndpointSlices, rule.RequestsFailed},
	Test:  testStartupRace,
}

func testStartupRace(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	young, slowest := youngThat(v, w, evidence.Wholly(evidence.AnswersBadly))
	if len(young) == 0 {
		if parts, _ := youngThat(v, w, evidence.AnswersBadly); len(parts) > 0 {
			return rule.No(evidence.InParts(parts, "it fails some requests, so it is not merely late")[0].Text)
		}
		return rule.No(noneLate(v, w, "no Pod was ready before it answered at its own address "))
	}
	whyNot, doubts := olderAlike(v, w, young)
	if whyNot != "" {
		return rule.No(whyNot)
	}
	f := rule.Finding{Text: startupText(young, slowest, unready(v, w, slowest)) + meanwhile(v, slowest),
		Fix: startupFix(v, slowest, unready(v, w, slowest))}
	for _, s := range young[:min(len(young), rule.MostNamed)] {
		f.Measures = append(f.Measures, model.Measure{Name: model.ReadyEarly, Object: s.Pod.Name,
			Length: early(s)})
	}
	rule.AccuseYoung(v, w, young, &f)
	f.Lack(neverWell(v, w, young, "it may be more than slow to start: its version or its configuration "+
		"may be bad")...)
	f.Oppose(doubts...)
	for _, p := range evidence.SuspectPods(young) {
		if evidence.ExitedItself(p) {
			f.Oppose(evidence.Watched.Doubt(p.Name + " exited: it may have crashed rather than started late"))
		}
	}
	return f
}

func startupText(young []evidence.Suspect, slowest evidence.Suspect, unready string) string {
	pods := evidence.SuspectPods(young)
	if len(pods) == 1 {
		return fmt.Sprintf("%s was ready for %s before it answered at its own address%s", slowest.Pod.Name,
			quantity.Length(early(slowest), slowest.Outage.Open.End), unready)
	}
	return fmt.Sprintf("%s were ready before they answered at their own addresses, %s for longest (%s)%s: %s",
		quantity.Count(len(pods), "Pod"),
		slowest.Pod.Name, quantity.Length(early(slowest), slowest.Outage.Open.End), unready,
		quantity.PodNames(pods))
}

// unready says that only the endpoint was ready, not the Pod, if Pods were watched and the Service may publish such
// Pods.
func unready(v *evidence.Evidence, w *model.Window, s evidence.Suspect) string {
	if ready := s.Pod.Ready; ready != nil && ready.Earliest <= s.Pod.EndpointReady.Latest ||
		v.Watches.LaneOff("pod", w) {
		return ""
	}
	if does, known := v.Services.Publishes(w); known && !does {
		return ""
	}
	return " (its endpoint was, the Pod itself was not: the Service may publish Pods that are not ready)"
}

// meanwhile says what the Pod did before it answered, and what its readiness rested on.
func meanwhile(v *evidence.Evidence, s evidence.Suspect) string {
	return fmt.Sprintf("; until then %s %s%s", s.Pod.Name, v.Suspects.FailedHow(s), v.Templates.AskedFor(s.Pod))
}

// startupFix gives the time that a probe has to cover.
func startupFix(v *evidence.Evidence, slowest evidence.Suspect, unready string) string {
	least := quantity.Span(quantity.RoundUp(early(slowest).Max.Round(time.Millisecond)))
	if unready != "" {
		return fmt.Sprintf("set publishNotReadyAddresses to false, or let clients wait: %s took up to %s to answer",
			slowest.Pod.Name, least)
	}
	what := "add a readiness probe that asks"
	if v.Templates.ReadinessOf(slowest.Pod) != nil {
		what = "let the readiness probe ask"
	}
	return fmt.Sprintf("%s for what clients ask: it would have kept %s out of the endpoints for up to %s "+
		"(minReadySeconds does not: it delays the rollout, not the endpoint)", what, slowest.Pod.Name, least)
}
