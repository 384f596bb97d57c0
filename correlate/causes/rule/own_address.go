package rule

import (
	"fmt"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// Accuse completes a finding that names suspects: what their own addresses say, how many of the failures they can
// have made, and what the other Pods' addresses say. The text and the fix are the rule's.
func Accuse(v *evidence.Evidence, w *model.Window, suspects []evidence.Suspect, f *Finding) {
	for i := range suspects[:min(len(suspects), MostNamed)] {
		s := &suspects[i]
		f.For = append(f.For, evidence.Measured.Target(s.Target, &s.Outage.Start,
			fmt.Sprintf("%s failed when probed at its own address: %s", s.Pod.Name,
				quantity.ClassCounts(s.Outage.Classes))))
	}
	f.For = append(f.For, evidence.Watched.Target(w.Target, &w.Start, "requests began to fail: "+
		quantity.ClassCounts(w.Classes)))
	f.For = append(f.For, evidence.Mention(v.Suspects.OthersAnswered(w, suspects)...)...)
	MoreThanTheirShare(v, w, len(evidence.SuspectPods(suspects)), f)
	f.ExplainsAtMost(w, v.Suspects.MadeBy(w, suspects))
}

// AccuseYoung completes a finding that names suspects which had just become ready.
func AccuseYoung(v *evidence.Evidence, w *model.Window, young []evidence.Suspect, f *Finding) {
	for _, s := range young[:min(len(young), MostNamed)] {
		f.For = append(f.For,
			evidence.Context.Event(v.Changes.IDOf(s.Pod, timeline.EndpointChanged, s.Pod.EndpointReady),
				s.Pod.EndpointReady, s.Pod.Name+" was added to the ready endpoints"))
	}
	Accuse(v, w, young, f)
}
