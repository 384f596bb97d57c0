package causes

import (
	"fmt"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// accuse completes a finding that names suspects: what their own addresses say, how many of the failures they can
// have made, and what the other Pods' addresses say. The text and the fix are the rule's.
func accuse(v *evidence.Evidence, w *model.Window, suspects []evidence.Suspect, f *Finding) {
	for i := range suspects[:min(len(suspects), mostNamed)] {
		s := &suspects[i]
		f.For = append(f.For, evidence.Measured.Sign(model.Evidence{Target: s.Target, At: &s.Outage.Start,
			Text: fmt.Sprintf("%s failed at its own address: %s", s.Pod.Name, quantity.ClassCounts(s.Outage.Classes))}))
	}
	f.For = append(f.For, evidence.Watched.Sign(model.Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + quantity.ClassCounts(w.Classes)}))
	f.For = append(f.For, evidence.Mention(v.Suspects.OthersAnswered(w, suspects)...)...)
	moreThanTheirShare(v, w, len(evidence.SuspectPods(suspects)), f)
	f.explains(w, v.Suspects.MadeBy(w, suspects))
}

// accuseYoung completes a finding that names suspects which had just become ready.
func accuseYoung(v *evidence.Evidence, w *model.Window, young []evidence.Suspect, f *Finding) {
	for _, s := range young[:min(len(young), mostNamed)] {
		f.For = append(f.For, evidence.Mention(model.Evidence{
			Event: v.Changes.IDOf(s.Pod, timeline.EndpointChanged, s.Pod.EndpointReady), At: s.Pod.EndpointReady, Text: s.Pod.Name + " was added to the ready endpoints",
		})...)
	}
	accuse(v, w, young, f)
}
