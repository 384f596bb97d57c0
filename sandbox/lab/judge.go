package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

// An outcome is how an expected incident was named, the best first.
type outcome string

const (
	right       outcome = "right"
	notFirst    outcome = "not first"   // the right rule is among the causes, but not the first
	unexplained outcome = "unexplained" // an honest answer
	wrong       outcome = "wrong"
	missed      outcome = "missed"   // no incident at all, where one was expected; or none allowed, and there is one
	silent      outcome = "silent"   // no failure, as it should be
	invented    outcome = "invented" // failures where there should be none
)

// A check is one line of the expectation, held against what came.
type check struct {
	ok        bool
	want, got string
}

func (c check) String() string {
	if c.ok {
		return "ok:   " + c.want + ": " + c.got
	}
	return "FAIL: want " + c.want + "; came " + c.got
}

// A named says what an expected incident was called.
type named struct {
	outcome    outcome
	want       string // the rule
	said       string // the rule that came first; empty if there was no incident
	confidence string
}

const (
	theUnexplained = "unexplained"
	highConfidence = "high"
	noFailure      = "no failure" // what is wanted of a run that is to lose nothing
)

// judge holds what Lapse says against what a scenario expects. done are the steps as they were taken.
func judge(s Scenario, r record, t drill.Timeline) (names []named, checks []check) {
	j := &judgement{record: r, timeline: t}
	rest := slices.DeleteFunc(slices.Clone(t.Incidents),
		func(i drill.Incident) bool { return i.Failed == 0 && i.Cut == 0 })
	if s.Expect.NoFailure {
		if s.Expect.Cuts {
			rest = slices.DeleteFunc(rest, func(i drill.Incident) bool { return i.Failed == 0 })
		}
		names = append(names, j.silence(rest))
	}
	for _, want := range s.Expect.Incidents {
		var i int
		if i = bestMatch(want, rest); i < 0 {
			j.add(false, "incident "+strings.Join(want.Rules, " or "), "no further incident")
			names = append(names, named{outcome: missed, want: want.Rules[0]})
			continue
		}
		names = append(names, j.incident(want, rest[i]))
		rest = slices.Delete(rest, i, i+1)
	}
	for _, other := range rest {
		first := firstCause(other)
		if !s.Expect.NoFailure && !slices.Contains(s.Expect.Allow, first.Rule) {
			j.add(!s.Expect.NoOther, "no other incident", fmt.Sprintf("incident %d: %s", other.ID, describe(other)))
		}
	}
	for _, rule := range s.Expect.Never {
		j.never(rule)
	}
	for _, want := range s.Expect.Exits {
		j.exit(want)
	}
	for _, want := range s.Expect.Scores {
		j.score(want)
	}
	if s.Expect.Lags {
		j.lags()
	}
	j.counts()
	return names, j.checks
}

// announced reports whether an incident is only that connections ended that were held, each of them with an
// announcement.
func (j *judgement) announced(i drill.Incident) bool {
	return i.Cut > 0 && i.Failed == 0 && !slices.ContainsFunc(j.timeline.Held,
		func(h drill.Held) bool { return h.Unwarned > 0 })
}

type judgement struct {
	record   record
	timeline drill.Timeline
	checks   []check
}

func (j *judgement) add(ok bool, want, got string) { j.checks = append(j.checks, check{ok, want, got}) }

func (j *judgement) silence(incidents []drill.Incident) named {
	incidents = slices.DeleteFunc(slices.Clone(incidents), j.announced)
	v := j.timeline.Verdict
	j.add(v.Failed == 0 && len(incidents) == 0, noFailure,
		fmt.Sprintf("%d failed of %d, %d incidents", v.Failed, v.Sent, len(incidents)))
	if len(incidents) == 0 {
		return named{outcome: silent, want: noFailure}
	}
	first := firstCause(incidents[0])
	return named{invented, noFailure, first.Rule, first.Confidence}
}

// bestMatch finds the incident that an expectation is about: one that has the rule first, else among its causes, else
// the one with most failures.
func bestMatch(want Incident, incidents []drill.Incident) int {
	best, rank := -1, 0
	for i, incident := range incidents {
		r := 1
		switch {
		case slices.Contains(want.Rules, firstCause(incident).Rule):
			r = 3
		case mentions(incident, want.Rules...):
			r = 2
		}
		if r > rank || r == rank && incident.Failed > incidents[best].Failed {
			best, rank = i, r
		}
	}
	return best
}

func firstCause(i drill.Incident) drill.Cause {
	if len(i.Causes) == 0 {
		return drill.Cause{}
	}
	return i.Causes[0]
}

func mentions(i drill.Incident, rules ...string) bool {
	return slices.ContainsFunc(i.Causes, func(c drill.Cause) bool { return slices.Contains(rules, c.Rule) })
}

func describe(i drill.Incident) string {
	var causes []string
	for _, c := range i.Causes {
		causes = append(causes, c.Rule+" ["+c.Confidence+"]")
	}
	text := fmt.Sprintf("%s, %d of %d failed", strings.Join(causes, ", "), i.Failed, i.Sent)
	if i.Cut > 0 {
		text += fmt.Sprintf(", %d connections cut", i.Cut)
	}
	return text
}

func (j *judgement) incident(want Incident, got drill.Incident) named {
	first := firstCause(got)
	n := named{outcome: wrong, want: want.Rules[0], said: first.Rule, confidence: first.Confidence}
	switch {
	case slices.Contains(want.Rules, first.Rule):
		n.outcome = right
	case mentions(got, want.Rules...):
		n.outcome = notFirst
	case first.Rule == theUnexplained:
		n.outcome = unexplained
	}
	sure := slices.Index(confidences, first.Confidence) >= slices.Index(confidences, want.Confidence)
	j.add(n.outcome == right && sure, fmt.Sprintf("%s, %s or surer",
		strings.Join(want.Rules, " or "), want.Confidence), describe(got))
	for _, rule := range want.Also {
		j.add(mentions(got, rule), "also "+rule, describe(got))
	}
	if want.Cut != nil {
		j.add(want.Cut.has(got.Cut), want.Cut.String()+" cut", fmt.Sprint(got.Cut))
	}
	if want.Failed != nil {
		j.add(want.Failed.has(got.Failed), want.Failed.String()+" failed", fmt.Sprint(got.Failed))
	}
	begin, end := j.edges(got)
	j.near("begins", want.Begins, begin)
	j.near("ends", want.Ends, end)
	for _, text := range want.Says {
		j.says(text, first)
	}
	for _, text := range want.SetOffBy {
		j.setOffBy(text, got)
	}
	return n
}

// edges returns the brackets of an incident's begin and end. If a window is open at a side, the bracket includes the
// unobserved time next to it: the fault may have been there.
func (j *judgement) edges(i drill.Incident) (begin, end drill.Instant) {
	begin, end = i.Start, i.End
	for _, w := range j.timeline.Windows {
		if !slices.Contains(i.Windows, w.ID) {
			continue
		}
		for _, u := range j.timeline.Unobserved {
			if w.Open.Start && u.Target == w.Target && u.Start <= w.Start.Earliest && w.Start.Earliest <= u.End {
				begin.Earliest = min(begin.Earliest, u.Start)
			}
			if w.Open.End && u.Target == w.Target && u.Start <= w.End.Latest && w.End.Latest <= u.End {
				end.Latest = max(end.Latest, u.End)
			}
		}
	}
	return begin, end
}

// near reports whether an edge's bracket holds an instant between a step's begin and the allowed time after its end.
func (j *judgement) near(edge string, want *Near, got drill.Instant) {
	if want == nil {
		return
	}
	step := j.record.Steps[want.Step]
	from, to := step.Began.Sub(j.timeline.T0), step.Ended.Sub(j.timeline.T0)+want.Within
	j.add(got.Latest >= from && got.Earliest <= to,
		fmt.Sprintf("%s within %v of %s: %s to %s", edge, want.Within, step.Text, seconds(from), seconds(to)),
		seconds(got.Earliest)+" to "+seconds(got.Latest))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// setOffBy reports whether one of the changes that set an incident off is told in words that contain a text.
func (j *judgement) setOffBy(text string, i drill.Incident) {
	short := j.short(text)
	var told []string
	for _, t := range i.Triggers {
		told = append(told, j.short(t.Text))
	}
	j.add(slices.ContainsFunc(told, func(t string) bool {
		return strings.Contains(strings.ToLower(t), strings.ToLower(short))
	}),
		"set off by "+short, cmp.Or(strings.Join(told, "; "), "not known"))
}

// short returns a text with its variables expanded; a Pod's name is shortened as Lapse may shorten it.
func (j *judgement) short(text string) string {
	text = expand([]string{text}, j.record.Vars)[0]
	for _, p := range j.record.Pods {
		text = strings.ReplaceAll(text, p.Name, shortName(p.Name))
	}
	return text
}

func (j *judgement) says(text string, c drill.Cause) {
	said, short := strings.ToLower(c.Text+" "+c.Fix), j.short(text)
	j.add(strings.Contains(said, strings.ToLower(short)), fmt.Sprintf("a text that says %q", short),
		fmt.Sprintf("%q, fix %q", c.Text, c.Fix))
}

func (j *judgement) never(rule string) {
	for _, i := range j.timeline.Incidents {
		if mentions(i, rule) {
			j.add(false, "never "+rule, fmt.Sprintf("incident %d: %s", i.ID, describe(i)))
			return
		}
	}
	j.add(true, "never "+rule, "nowhere")
}

func (j *judgement) exit(want Exit) {
	name := expand([]string{want.Pod}, j.record.Vars)[0]
	var codes []string
	var found bool
	for _, p := range j.record.Pods {
		if p.Name != name && p.App != name {
			continue
		}
		for _, e := range p.Exits {
			codes = append(codes, fmt.Sprintf("%s %d", e.Container, e.Code))
			found = found || e.Code == want.Code
		}
	}
	j.add(found, fmt.Sprintf("%s exits %d", want.Pod, want.Code), cmp.Or(strings.Join(codes, ", "), "no exit"))
}

func (j *judgement) score(want Score) {
	var came []string
	ok := false
	for _, p := range j.timeline.Scorecard.Predictions {
		if p.Prediction.Rule == want.Rule {
			came = append(came, p.Outcome+": "+p.Why)
			ok = ok || p.Outcome == want.Outcome
		}
	}
	j.add(ok, fmt.Sprintf("%s predicted, and %s", want.Rule, want.Outcome),
		cmp.Or(strings.Join(came, "; "), "not predicted"))
}

// lags holds what is said of stale routes against the servers' own words and the nodes' rules.
func (j *judgement) lags() {
	const want = "no lag that the truth contradicts"
	for _, wrong := range truth.Contradictions(j.timeline, j.record.Routes, len(j.record.Before)) {
		j.add(false, want, wrong)
	}
	var ended []string
	for _, p := range j.record.Routes {
		ended = append(ended, fmt.Sprintf("%s for %s ms", shortName(p.Name), truth.Millis(p.Lag())))
	}
	j.add(len(ended) > 0, want, "truth: routed to "+cmp.Or(strings.Join(ended, ", "), "no Pod that ended"))
}

// counts holds Lapse's counts against the servers' own, where each server lived through the run: what Lapse counts as
// answered was served, and what was served was answered, or failed on the way.
func (j *judgement) counts() {
	ended := slices.ContainsFunc(j.record.Pods, func(p Pod) bool { return p.App == "web" && len(p.Exits) > 0 })
	if len(j.record.Before) == 0 || ended || !slices.EqualFunc(j.record.Before, j.record.After,
		func(a, b Count) bool { return a.Pod == b.Pod }) {
		return // a server has ended, and its count with it
	}
	served := 0
	for i := range j.record.After {
		served += j.record.After[i].Served - j.record.Before[i].Served
	}
	ok, failed := 0, 0
	for _, t := range j.timeline.Targets {
		if t.Kind == "control" || strings.HasPrefix(t.URL, "dns:") { // which the servers did not answer
			continue
		}
		ok, failed = ok+t.OK, failed+t.Failed
	}
	for _, h := range j.timeline.Held {
		opened, doubtful := h.Opened()
		ok, failed = ok+opened, failed+doubtful
	}
	want := fmt.Sprintf("%d answers, as the servers count (and up to %d that failed)", served, failed)
	j.add(ok <= served && served <= ok+failed, want, fmt.Sprint(ok))
}
