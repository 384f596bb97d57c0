package causes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is what several rules ask of Pods whose endpoints had just become ready, and that failed at their own
// addresses.

// youngSuspects are those that failed at their own addresses when their endpoints first turned ready, or had not
// answered there before. A Pod from before the run that had answered, and of which no container was started
// meanwhile, is not young: its endpoint only came back. What failed before it was ready has another cause.
func (v *index) youngSuspects(w *model.Window) []suspect {
	young := v.suspectsThat(w, func(s suspect) bool {
		ready := s.pod.EndpointReady
		if ready == nil || s.outage.End.Latest <= ready.Latest {
			return false
		}
		first := v.probe(w, s.pod).firstOK
		if first == nil || *first >= s.outage.End.Earliest {
			return true
		}
		began := s.pod.Created != nil || *first >= s.outage.Start.Latest || v.startedIn(s.pod, s.outage.Span())
		return began && s.outage.Start.Earliest <= ready.Latest
	})
	for i := range young {
		young[i].from = max(young[i].from, young[i].pod.EndpointReady.Earliest)
	}
	return young
}

// answeredFirst reports whether a Pod had answered at its own address before it failed there, and may have been ready
// by then.
func (v *index) answeredFirst(w *model.Window, s suspect) bool {
	first := v.probe(w, s.pod).firstOK
	return first != nil && *first <= s.outage.Start.Earliest && s.outage.Start.Earliest >= s.pod.EndpointReady.Earliest
}

// answeredBefore reports whether a Pod had answered well at its own address before it failed there, ready or not.
func (v *index) answeredBefore(w *model.Window, s suspect) bool {
	first := v.probe(w, s.pod).firstOK
	return first != nil && *first <= s.outage.Start.Earliest
}

// startedIn reports whether a container of the Pod may have been started in a time.
func (v *index) startedIn(p *model.Pod, in model.Instant) bool {
	return slices.ContainsFunc(v.about[p.UID], func(e *model.Event) bool {
		return e.Kind == timeline.PodContainer && e.To == "running" && e.At.Bounded() && e.At.Overlaps(in)
	})
}

// youngThat are those that were late whose outages are of a kind, and the one of them that took longest.
func (v *index) youngThat(w *model.Window, is func(*model.Window) bool) (young []suspect, slowest suspect) {
	return v.youngWhere(w, func(s suspect) bool { return is(s.outage) })
}

// youngWhere is youngThat, where more than the outage tells of which kind it is.
func (v *index) youngWhere(w *model.Window, is func(suspect) bool) (young []suspect, slowest suspect) {
	young = v.late(w, slices.DeleteFunc(v.youngSuspects(w), func(s suspect) bool { return !is(s) }))
	if len(young) > 0 {
		slowest = slices.MaxFunc(young, func(a, b suspect) int { return cmp.Compare(early(a).Max, early(b).Max) })
	}
	return young, slowest
}

// noneLate says why no Pod was late: a young one that never answered well may be bad.
func (v *index) noneLate(w *model.Window, none string) string {
	for _, s := range v.youngSuspects(w) {
		if len(v.late(w, []suspect{s})) == 0 {
			return fmt.Sprintf("%s never answered well %s: its version or its configuration may be bad", s.pod.Name, quantity.Between(s.outage.Span()))
		}
	}
	return none + quantity.Between(w.Start)
}

// accuseYoung completes a finding that names suspects which had just become ready.
func (v *index) accuseYoung(w *model.Window, young []suspect, f *Finding) {
	for _, s := range young[:min(len(young), mostNamed)] {
		f.For = append(f.For, context(model.Evidence{
			Event: v.changeOf(s.pod, timeline.EndpointChanged, s.pod.EndpointReady), At: s.pod.EndpointReady, Text: s.pod.Name + " was added to the ready endpoints",
		})...)
	}
	v.accuse(w, young, f)
}

// neverWell is the doubt that young Pods did not answer well for as long as they were observed: then they may never
// do so.
func (v *index) neverWell(w *model.Window, young []suspect, text string) []Sign {
	if i := slices.IndexFunc(young, func(s suspect) bool { return v.neverAnswered(w, s) }); i >= 0 {
		return []Sign{doubt(Watched, fmt.Sprintf("%s did not answer well for as long as it was observed: %s", young[i].pod.Name, text))}
	}
	return nil
}

// neverAnswered reports whether a young Pod did not answer well from when it failed until it was not observed any more.
func (v *index) neverAnswered(w *model.Window, s suspect) bool {
	first := v.probe(w, s.pod).firstOK
	return first == nil || *first < s.outage.Start.Latest && s.outage.Open.End
}

// forGood is for how long a Pod fails at least of which is not said that it was late: it may do so for good.
const forGood = 10 * time.Second

// late leaves out the young Pods that never answered well, for so long that nothing tells them from Pods which never
// will.
func (v *index) late(w *model.Window, young []suspect) []suspect {
	return slices.DeleteFunc(slices.Clone(young), func(s suspect) bool { return v.neverAnswered(w, s) && s.outage.Length.Min >= forGood })
}

// early is for how long the Pod's endpoint was ready before the Pod answered.
func early(s suspect) model.Length { return length(*s.pod.EndpointReady, s.outage.End) }

// olderAlike compares young Pods with others that failed as they did, and had answered before. If these can have made
// as many of the window's failures, it says why it is not that Pods are young; if they can have made half as many,
// that is a doubt.
func (v *index) olderAlike(w *model.Window, young []suspect) (whyNot string, doubts []Sign) {
	older := slices.DeleteFunc(v.suspectsBeside(w, young), func(s suspect) bool {
		first := v.probe(w, s.pod).firstOK
		return first == nil || *first >= s.outage.Start.Latest
	})
	made, alike := v.madeBy(w, young), v.madeBy(w, older)
	if alike == 0 || 2*alike < made {
		return "", nil
	}
	why := namedPods(suspectPods(older)) + " failed as well, and had answered before: what they share fits better"
	if alike >= made {
		return why, nil
	}
	return "", []Sign{doubt(Watched, why)}
}
