package pods

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is about Pods whose endpoints had just become ready and that failed at their own addresses.

// youngSuspects returns the suspects that failed when their endpoints first turned ready, or had not answered before. A
// Pod from before the run that had answered, and without a container started meanwhile, is not young: its endpoint only
// came back. What failed before it was ready has another cause.
func youngSuspects(v *evidence.Evidence, w *model.Window) []evidence.Suspect {
	young := v.Suspects.That(w, func(s evidence.Suspect) bool {
		ready := s.Pod.EndpointReady
		if ready == nil || s.Outage.End.Latest <= ready.Latest {
			return false
		}
		first := v.Addresses.Probe(w, s.Pod).FirstOK
		if first == nil || *first >= s.Outage.End.Earliest {
			return true
		}
		began := s.Pod.Created != nil || *first >= s.Outage.Start.Latest || startedIn(v, s.Pod, s.Outage.Span())
		return began && s.Outage.Start.Earliest <= ready.Latest
	})
	for i := range young {
		young[i].From = max(young[i].From, young[i].Pod.EndpointReady.Earliest)
	}
	return young
}

// answeredFirst reports whether a Pod had answered at its own address before it failed there, and may have been ready
// by then.
func answeredFirst(v *evidence.Evidence, w *model.Window, s evidence.Suspect) bool {
	first := v.Addresses.Probe(w, s.Pod).FirstOK
	return first != nil && *first <= s.Outage.Start.Earliest && s.Outage.Start.Earliest >= s.Pod.EndpointReady.Earliest
}

// answeredBefore reports whether a Pod had answered well at its own address before it failed there, ready or not.
func answeredBefore(v *evidence.Evidence, w *model.Window, s evidence.Suspect) bool {
	first := v.Addresses.Probe(w, s.Pod).FirstOK
	return first != nil && *first <= s.Outage.Start.Earliest
}

// startedIn reports whether a container of the Pod may have been started within a bracket.
func startedIn(v *evidence.Evidence, p *model.Pod, in model.Instant) bool {
	return slices.ContainsFunc(v.Changes.About[p.UID], func(e *model.Event) bool {
		return e.Kind == timeline.PodContainer && e.To == "running" && e.At.Bounded() && e.At.Overlaps(in)
	})
}

// youngThat returns the late young Pods whose outages satisfy is, and the slowest of them.
func youngThat(v *evidence.Evidence, w *model.Window, is func(*model.Window) bool) (young []evidence.Suspect,
	slowest evidence.Suspect) {
	return youngWhere(v, w, func(s evidence.Suspect) bool { return is(s.Outage) })
}

// youngWhere is youngThat for conditions on more than the outage.
func youngWhere(v *evidence.Evidence, w *model.Window, is func(evidence.Suspect) bool) (young []evidence.Suspect,
	slowest evidence.Suspect) {
	young = late(v, w, slices.DeleteFunc(youngSuspects(v, w), func(s evidence.Suspect) bool { return !is(s) }))
	if len(young) > 0 {
		slowest = slices.MaxFunc(young, func(a, b evidence.Suspect) int {
			return cmp.Compare(early(a).Max, early(b).Max)
		})
	}
	return young, slowest
}

// noneLate says why no Pod counts as late: one that never answered well may be bad.
func noneLate(v *evidence.Evidence, w *model.Window, none string) string {
	for _, s := range youngSuspects(v, w) {
		if len(late(v, w, []evidence.Suspect{s})) == 0 {
			return fmt.Sprintf("%s never answered well %s: its version or its configuration may be bad", s.Pod.Name,
				quantity.Between(v.Run, s.Outage.Span()))
		}
	}
	return none + quantity.Between(v.Run, w.Start)
}

// neverWell returns the doubt that young Pods did not answer well for as long as they were observed: then they may
// never do so.
func neverWell(v *evidence.Evidence, w *model.Window, young []evidence.Suspect, text string) []evidence.Sign {
	if i := slices.IndexFunc(young, func(s evidence.Suspect) bool { return neverAnswered(v, w, s) }); i >= 0 {
		return []evidence.Sign{evidence.Watched.Doubt(fmt.Sprintf("%s did not answer well for as long as it was "+
			"observed: %s",
			young[i].Pod.Name, text))}
	}
	return nil
}

// neverAnswered reports whether a young Pod did not answer well from when it failed until it was not observed any more.
func neverAnswered(v *evidence.Evidence, w *model.Window, s evidence.Suspect) bool {
	first := v.Addresses.Probe(w, s.Pod).FirstOK
	return first == nil || *first < s.Outage.Start.Latest && s.Outage.Open.End
}

// A Pod that fails for forGood or longer is not called late: it may never recover.
const forGood = 10 * time.Second

// late leaves out the young Pods that failed for so long that they may never answer well.
func late(v *evidence.Evidence, w *model.Window, young []evidence.Suspect) []evidence.Suspect {
	return slices.DeleteFunc(slices.Clone(young), func(s evidence.Suspect) bool {
		return neverAnswered(v, w, s) && s.Outage.Length.Min >= forGood
	})
}

// early returns how long the Pod's endpoint was ready before the Pod answered.
func early(s evidence.Suspect) model.Length {
	return evidence.Length(*s.Pod.EndpointReady, s.Outage.End)
}

// olderAlike compares young Pods with Pods that failed in the same way but had answered before. If these explain as
// many failures, it says why youth is not the cause; if they explain at least half as many, it returns a doubt.
func olderAlike(v *evidence.Evidence, w *model.Window, young []evidence.Suspect) (whyNot string,
	doubts []evidence.Sign) {
	older := slices.DeleteFunc(v.Suspects.Beside(w, young), func(s evidence.Suspect) bool {
		first := v.Addresses.Probe(w, s.Pod).FirstOK
		return first == nil || *first >= s.Outage.Start.Latest
	})
	made, alike := v.Suspects.MadeBy(w, young), v.Suspects.MadeBy(w, older)
	if alike == 0 || 2*alike < made {
		return "", nil
	}
	why := quantity.PodNames(evidence.SuspectPods(older)) + " failed as well, and had answered before: what they " +
		"share fits better"
	if alike >= made {
		return why, nil
	}
	return "", []evidence.Sign{evidence.Watched.Doubt(why)}
}
