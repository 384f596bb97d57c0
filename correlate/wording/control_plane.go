package wording

import (
	"fmt"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// ControlPlane says in sentences which API servers were not measured, and which did not answer. There is none where all
// went well.
func ControlPlane(tl *model.Timeline) (sentences []string) {
	plane := tl.ControlPlane
	if plane == nil {
		return nil
	}
	say := func(text string) { sentences = append(sentences, "control plane: "+text) }
	if plane.NotAsked != "" {
		say("not measured: " + plane.NotAsked)
	}
	for _, address := range plane.ByAddress() {
		if worst := model.LongestOut(address); worst != nil {
			say(outText(worst) + "; it is no outage of a Service")
		}
		for i := range address {
			if s := &address[i]; s.NotMeasured != "" {
				say(fmt.Sprintf("%s was not measured%s: %s", s.Addr, fromNode(s), s.NotMeasured))
				break
			}
		}
	}
	return sentences
}

// outText says for how long a server failed.
func outText(s *model.APIServer) string {
	var out model.Length
	open, answered := false, true
	for _, o := range s.Outages {
		out.Min, out.Max = out.Min+o.Length.Min, out.Max+o.Length.Max
		open, answered = open || o.Open.Start || o.Open.End, answered && o.Answered()
	}
	what := s.Path
	if strings.Contains(what, "?") {
		what = "a list"
	}
	text := "did not answer " + what
	if answered {
		text = "answered " + what + " with errors"
	}
	text = fmt.Sprintf("%s%s %s for %s", s.Addr, fromNode(s), text, quantity.Length(out, open))
	if n := len(s.Outages); n > 1 {
		text += fmt.Sprintf(", %d times", n)
	}
	return text
}

func fromNode(s *model.APIServer) string {
	if s.Node == "" {
		return ""
	}
	return " from " + s.Node
}
