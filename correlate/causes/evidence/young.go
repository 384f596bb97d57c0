package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is about Pods whose endpoints had just become ready and that failed at their own addresses.

// Young returns the suspects that failed when their endpoints first turned ready, or had not answered before. A Pod
// from before the run that had answered, and without a container started meanwhile, is not young: its endpoint only
// came back. What failed before it was ready has another cause.
func (v *Suspects) Young(w *model.Window) []Suspect {
	young := v.That(w, func(s Suspect) bool {
		ready := s.Pod.EndpointReady
		if ready == nil || s.Outage.End.Latest <= ready.Latest {
			return false
		}
		first := v.addresses.Probe(w, s.Pod).FirstOK
		if first == nil || *first >= s.Outage.End.Earliest {
			return true
		}
		began := s.Pod.Created != nil || *first >= s.Outage.Start.Latest || v.changes.startedIn(s.Pod, s.Outage.Span())
		return began && s.Outage.Start.Earliest <= ready.Latest
	})
	for i := range young {
		young[i].From = max(young[i].From, young[i].Pod.EndpointReady.Earliest)
	}
	return young
}

// AnsweredFirst reports whether a Pod had answered at its own address before it failed there, and may have been ready
// by then.
func (v *Suspects) AnsweredFirst(w *model.Window, s Suspect) bool {
	first := v.addresses.Probe(w, s.Pod).FirstOK
	return first != nil && *first <= s.Outage.Start.Earliest && s.Outage.Start.Earliest >= s.Pod.EndpointReady.Earliest
}

// AnsweredBefore reports whether a Pod had answered well at its own address before it failed there, ready or not.
func (v *Suspects) AnsweredBefore(w *model.Window, s Suspect) bool {
	first := v.addresses.Probe(w, s.Pod).FirstOK
	return first != nil && *first <= s.Outage.Start.Earliest
}

// startedIn reports whether a container of the Pod may have been started within a bracket.
func (v *Changes) startedIn(p *model.Pod, in model.Instant) bool {
	return slices.ContainsFunc(v.About[p.UID], func(e *model.Event) bool {
		return e.Kind == timeline.PodContainer && e.To == "running" && e.At.Bounded() && e.At.Overlaps(in)
	})
}

// YoungThat returns the late young Pods whose outages satisfy is, and the slowest of them.
func (v *Suspects) YoungThat(w *model.Window, is func(*model.Window) bool) (young []Suspect, slowest Suspect) {
	return v.YoungWhere(w, func(s Suspect) bool { return is(s.Outage) })
}

// YoungWhere is like YoungThat, for conditions on more than the outage.
func (v *Suspects) YoungWhere(w *model.Window, is func(Suspect) bool) (young []Suspect, slowest Suspect) {
	young = v.late(w, slices.DeleteFunc(v.Young(w), func(s Suspect) bool { return !is(s) }))
	if len(young) > 0 {
		slowest = slices.MaxFunc(young, func(a, b Suspect) int { return cmp.Compare(Early(a).Max, Early(b).Max) })
	}
	return young, slowest
}

// NoneLate says why no Pod counts as late: one that never answered well may be bad.
func (v *Suspects) NoneLate(w *model.Window, none string) string {
	for _, s := range v.Young(w) {
		if len(v.late(w, []Suspect{s})) == 0 {
			return fmt.Sprintf("%s never answered well %s: its version or its configuration may be bad", s.Pod.Name,
				quantity.Between(s.Outage.Span()))
		}
	}
	return none + quantity.Between(w.Start)
}

// NeverWell returns the doubt that young Pods did not answer well for as long as they were observed: then they may
// never do so.
func (v *Suspects) NeverWell(w *model.Window, young []Suspect, text string) []Sign {
	if i := slices.IndexFunc(young, func(s Suspect) bool { return v.neverAnswered(w, s) }); i >= 0 {
		return []Sign{Watched.Doubt(fmt.Sprintf("%s did not answer well for as long as it was observed: %s",
			young[i].Pod.Name, text))}
	}
	return nil
}

// neverAnswered reports whether a young Pod did not answer well from when it failed until it was not observed any more.
func (v *Suspects) neverAnswered(w *model.Window, s Suspect) bool {
	first := v.addresses.Probe(w, s.Pod).FirstOK
	return first == nil || *first < s.Outage.Start.Latest && s.Outage.Open.End
}

// A Pod that fails for forGood or longer is not called late: it may never recover.
const forGood = 10 * time.Second

// late leaves out the young Pods that failed for so long that they may never answer well.
func (v *Suspects) late(w *model.Window, young []Suspect) []Suspect {
	return slices.DeleteFunc(slices.Clone(young), func(s Suspect) bool {
		return v.neverAnswered(w, s) && s.Outage.Length.Min >= forGood
	})
}

// Early returns how long the Pod's endpoint was ready before the Pod answered.
func Early(s Suspect) model.Length { return Length(*s.Pod.EndpointReady, s.Outage.End) }

// OlderAlike compares young Pods with Pods that failed in the same way but had answered before. If these explain as
// many failures, it says why youth is not the cause; if they explain at least half as many, it returns a doubt.
func (v *Suspects) OlderAlike(w *model.Window, young []Suspect) (whyNot string, doubts []Sign) {
	older := slices.DeleteFunc(v.Beside(w, young), func(s Suspect) bool {
		first := v.addresses.Probe(w, s.Pod).FirstOK
		return first == nil || *first >= s.Outage.Start.Latest
	})
	made, alike := v.MadeBy(w, young), v.MadeBy(w, older)
	if alike == 0 || 2*alike < made {
		return "", nil
	}
	why := NamedPods(SuspectPods(older)) + " failed as well, and had answered before: what they share fits better"
	if alike >= made {
		return why, nil
	}
	return "", []Sign{Watched.Doubt(why)}
}
