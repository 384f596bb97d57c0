package wording

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// headline says what was found: that comes first also where the run proves nothing. That nothing failed is said
// together with what would have been seen.
func headline(tl *model.Timeline) string {
	v := &tl.Verdict
	if v.Sent == 0 {
		return withCommand(tl, cmp.Or(heldShort(v), "nothing was measured"))
	}
	parts := []string{found(tl)}
	if v.Held != "" {
		parts = append(parts, heldShort(v))
	}
	if from := slowFrom(tl); from > 0 {
		parts = append(parts, quantity.Count(slowAnswers(tl), "answer")+" slower than "+quantity.Span(from))
	}
	switch {
	case v.Coverage < tl.MinCoverage():
		parts = append(parts, "only "+quantity.Coverage(v.Coverage)+" was observed")
	case v.Failed == 0 && !tooLittle(tl) && v.Blind == "":
		parts = append(parts, detectable(tl))
	}
	if v.Blind != "" {
		parts = append(parts, v.Blind)
	}
	parts = append(parts, leastObserved(tl)...)
	return withCommand(tl, strings.Join(parts, "; "))
}

// heldShort says how many held connections were cut, without what became of them.
func heldShort(v *model.Verdict) string {
	text, _, _ := strings.Cut(v.Held, "; ")
	return text
}

// found says what failed, and what the run was wrapped around.
func found(tl *model.Timeline) string {
	v := &tl.Verdict
	if v.Failed == 0 {
		return "no failure seen in " + quantity.Count(v.Sent, "request")
	}
	return fmt.Sprintf("%s%d of %s failed%s", subject(tl), v.Failed, quantity.Count(v.Sent, "request"), during(tl))
}

// slowAnswers returns how many answers were late, those amid failures included.
func slowAnswers(tl *model.Timeline) (n int) {
	for i := range tl.Windows {
		n += tl.Windows[i].Slow
	}
	return n
}

// slowFrom returns the least that an answer took in a slow window; 0 if there is none.
func slowFrom(tl *model.Timeline) time.Duration {
	slow := map[string]bool{}
	for i := range tl.Windows {
		if w := &tl.Windows[i]; w.Kind == model.Slow {
			slow[w.Target] = true
		}
	}
	from := time.Duration(0)
	for i := range tl.Targets {
		if t := &tl.Targets[i]; slow[t.Name] && (from == 0 || t.SlowFrom < from) {
			from = t.SlowFrom
		}
	}
	if len(slow) == 0 {
		return 0
	}
	return cmp.Or(from, tl.Run.Slow)
}

// detectable says which outage would have been seen, and how much of the time.
func detectable(tl *model.Timeline) string {
	longest := tl.Verdict.DetectionLimit
	for _, u := range tl.Unobserved {
		longest = max(longest, u.End-u.Start)
	}
	if tl.Verdict.Coverage >= 1 {
		return fmt.Sprintf("an outage of %s or longer would have been seen at any time", quantity.Highest(longest)) +
			Since(tl)
	}
	return fmt.Sprintf("an outage of %s or longer would have been seen in %s of the time; the longest gap was %s",
		quantity.Highest(resolution(tl)), quantity.Coverage(tl.Verdict.Coverage), quantity.Highest(longest))
}

// Since goes on with the outage that would have been seen since the rate was raised; "" if it was not.
func Since(tl *model.Timeline) string {
	limit, since, ok := tl.LimitSince()
	if !ok {
		return ""
	}
	return fmt.Sprintf(", one of %s or longer since %s", quantity.Highest(limit), quantity.Span(since))
}

// resolution returns the longest gap between two requests that counts as observed: a longer outage shows wherever it
// does.
func resolution(tl *model.Timeline) time.Duration {
	longest := tl.Verdict.DetectionLimit
	for i := range tl.Targets {
		if t := &tl.Targets[i]; t.Kind.Judged() {
			longest = max(longest, t.GapLimit)
		}
	}
	return longest
}

// leastObserved names the node that observed least, if one missed something.
func leastObserved(tl *model.Timeline) []string {
	nodes := tl.Verdict.Nodes
	if len(nodes) < 2 || nodes[0].Coverage >= 1 {
		return nil
	}
	switch short := len(tl.ShortNodes()); {
	case short == 1:
		return []string{Silence(nodes[0])}
	case short > 1:
		return []string{fmt.Sprintf("%s, and %d more of %d nodes observed too little",
			Silence(nodes[0]), short-1, len(nodes))}
	}
	return []string{"least was observed from " + nodes[0].Node + ", " + quantity.Coverage(nodes[0].Coverage)}
}

// Silence says how much a node observed, and for how long it was silent.
func Silence(n model.NodeCoverage) string {
	if n.Target == "" {
		return n.Node + " observed nothing"
	}
	return fmt.Sprintf("%s observed %s and was silent for %s (%s)",
		n.Node, quantity.Coverage(n.Coverage), quantity.Span(n.Unobserved), n.Target)
}
