package causes

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is what several rules ask of Pods that failed at their own addresses while requests were routed to them.

// A suspect is a Pod that failed at its own address while its endpoint was ready. That was not its end.
type suspect struct {
	pod    *model.Pod
	target string        // of its own address
	outage *model.Window // of that target
	from   time.Duration // requests can have been routed to it while it failed from then
	until  time.Duration // until then
}

// nearlyAll is the share of its requests that an address fails which does not answer at all: more than chance leaves of what was under way.
const nearlyAll = 0.9

// whole reports whether the address failed all the time, and not only some of its requests.
func (s *suspect) whole() bool { return s.outage.Share >= nearlyAll }

// longSilence is for how long an address must have been silent within a window that is less than its outage.
const longSilence = time.Second

// silent reports whether a suspect's address failed all the time, or all the time of its outage that is within the window: a Pod that can be reached
// again may fail again at once, because it ends.
func (v *index) silent(w *model.Window, s *suspect) bool {
	from, to := max(s.outage.Start.Latest, w.Start.Latest), min(s.outage.End.Earliest, w.End.Earliest)
	if s.whole() || to-from < longSilence {
		return s.whole()
	}
	answered, sent := v.Answered(s.target, from, to)
	return sent > 0 && float64(sent-answered) >= nearlyAll*float64(sent)
}

// wholly adds to what an outage is to be that the address failed all the time.
func wholly(is func(*model.Window) bool) func(*model.Window) bool {
	return func(u *model.Window) bool { return is(u) && u.Share >= nearlyAll }
}

// inParts is the doubt that the addresses of suspects answered most or some requests meanwhile.
func inParts(suspects []suspect, text string) []Sign {
	for i := range suspects {
		if s := &suspects[i]; !s.whole() {
			answered := s.outage.Sent - s.outage.Failed
			return []Sign{doubt(Watched, fmt.Sprintf("%s answered %d of %d requests to its own address meanwhile: %s", s.pod.Name, answered, s.outage.Sent, text))}
		}
	}
	return nil
}

// suspects are the Pods behind a window that failed at their own addresses during it, one for each outage. The prober's own trouble is none.
func (v *index) suspects(w *model.Window) []suspect {
	if known, ok := v.suspected[w]; ok {
		return known
	}
	var found []suspect
	for _, s := range v.ownOutages(w) {
		if s.outage.Span().Overlaps(w.Span()) {
			found = append(found, s)
		}
	}
	v.suspected[w] = found
	return found
}

// suspectsThat are those of which is holds.
func (v *index) suspectsThat(w *model.Window, is func(suspect) bool) []suspect {
	var found []suspect
	for _, s := range v.suspects(w) {
		if is(s) {
			found = append(found, s)
		}
	}
	return found
}

// ownOutages are all of the Pods behind the window's Service.
func (v *index) ownOutages(w *model.Window) []suspect {
	svc := v.service(w)
	if svc.outages != nil {
		return svc.outages
	}
	svc.outages = []suspect{}
	for _, p := range svc.pods {
		for _, t := range v.directOf(w, p) {
			for i := range v.Outages[t.Name] {
				u := &v.Outages[t.Name][i]
				if u.Kind == model.Slow || v.canBeItsEnd(p, t, u) || !routedTo(p, u.Start.Latest, u.End.Earliest) || v.proberMade(t, u) {
					continue
				}
				s := suspect{pod: p, target: t.Name, outage: u, from: u.Start.Earliest, until: u.End.Latest}
				if p.EndpointReady != nil && !p.ReadyBy(u.Start.Earliest) { // else it is the time when it came back
					s.from = max(s.from, p.EndpointReady.Earliest)
				}
				svc.outages = append(svc.outages, s)
			}
		}
	}
	return svc.outages
}

// canBeItsEnd reports whether an outage of a Pod's own address can be that the Pod ended: it may have been ending when that began, and did not go on
// answering later. When a Pod was deleted is known to the second, so one that was cut off may seem to have been ending.
func (v *index) canBeItsEnd(p *model.Pod, t *model.Target, u *model.Window) bool {
	last := v.FirstLast[t.Name].LastOK
	return p.TerminatingBy(u.Start.Latest) && (last == nil || last.Sent < u.Start.Latest+apart)
}

// routedTo reports whether the Pod's endpoint was ready at some time between two instants, as far as its lane and the watch tell.
func routedTo(p *model.Pod, from, to time.Duration) bool {
	if p.ReadyWithin(from, to) {
		return true
	}
	return p.EndpointReady != nil && p.EndpointReady.Earliest <= to && (p.EndpointNotReady == nil || p.EndpointNotReady.Latest >= from || p.EndpointNotReady.Latest < p.EndpointReady.Earliest)
}

// proberMade reports whether the outage of a target is no longer than what a standstill of its prober, or trouble of the control target,
// can have made of good answers.
func (v *index) proberMade(t *model.Target, u *model.Window) bool {
	if some(u.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.NoSlot) == 0 {
		return false
	}
	made := func(unwell time.Duration) bool { return u.Length.Min <= unwell+v.Run.Run.Timeout }
	for _, e := range v.stalls {
		stall := e.At.Latest - e.At.Earliest
		if (e.Source == "" || e.Source == t.Source) && e.At.Overlaps(u.Span()) && stall >= v.Run.Run.Timeout/2 && made(stall) {
			return true
		}
	}
	for i := range v.Run.Targets {
		control := &v.Run.Targets[i]
		if control.Kind != timeline.Control || control.Source != t.Source {
			continue
		}
		if trouble := v.outageNear(control.Name, u.Span()); trouble != nil && made(trouble.Length.Max) {
			return true
		}
	}
	return false
}

// youngSuspects are those that failed at their own addresses when their endpoints first turned ready, or had not answered there before. A Pod from before
// the run that had answered, and of which no container was started meanwhile, is not young: its endpoint only came back.
// What failed before it was ready has another cause.
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

// answeredFirst reports whether a Pod had answered at its own address before it failed there, and may have been ready by then.
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

// neverWell is the doubt that young Pods did not answer well for as long as they were observed: then they may never do so.
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

// late leaves out the young Pods that never answered well, for so long that nothing tells them from Pods which never will.
func (v *index) late(w *model.Window, young []suspect) []suspect {
	return slices.DeleteFunc(slices.Clone(young), func(s suspect) bool { return v.neverAnswered(w, s) && s.outage.Length.Min >= forGood })
}

// answersBadly reports whether an address was there and answered, if badly: no packet to it was lost.
func answersBadly(u *model.Window) bool {
	return 2*some(u.Classes, timeline.TimeoutConnect, timeline.Unreachable) < u.Failed
}

// unreached reports whether nothing tells that a packet to an address arrived.
func unreached(u *model.Window) bool {
	return only(u.Classes, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot) && some(u.Classes, timeline.TimeoutConnect, timeline.Unreachable) > 0
}

// lasted says for how long a window went on: "for 3 s"; in words where nothing is known of it.
func lasted(w *model.Window) string {
	length := quantity.Length(w.Length, w.Open != model.Open{})
	if length == quantity.UnknownLength {
		return "for a time that is not known"
	}
	return "for " + length
}

// early is for how long the Pod's endpoint was ready before the Pod answered.
func early(s suspect) model.Length { return length(*s.pod.EndpointReady, s.outage.End) }

// madeBy counts the failures of a window that the suspects can have made: each failed as one of their own addresses did, at a time when
// requests were routed to it.
func (v *index) madeBy(w *model.Window, suspects []suspect) int {
	n := 0
	own := v.failuresOf(w)
	for i := range own {
		for _, s := range suspects {
			if s.canHaveMade(&own[i], v.target(w).Kind) {
				n++
				break
			}
		}
	}
	if n > 0 {
		n += max(0, w.Failed-len(own)) // beyond the cap of the list
	}
	return n
}

// canHaveMade reports whether a request to a target of this kind can have failed for what ailed the Pod: as its own address did, or on a connection
// that was there before the address could not be reached any more.
func (s *suspect) canHaveMade(f *model.Failure, kind timeline.TargetKind) bool {
	if f.Earliest() > s.until || arrived(f) < s.from {
		return false
	}
	if s.outage.Classes[f.Class.String()] > 0 {
		return true
	}
	lost := some(s.outage.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.Unreachable) > 0
	return lost && (f.Class == timeline.NoSlot || f.Class == timeline.TimeoutResponse && (kind == timeline.Reused || f.Earliest() <= s.outage.Start.Latest))
}

// accuse completes a finding that names suspects: what their own addresses say, how many of the failures they can have made, and what the
// other Pods' addresses say. The text and the fix are the rule's.
func (v *index) accuse(w *model.Window, suspects []suspect, f *Finding) {
	for i := range suspects[:min(len(suspects), mostNamed)] {
		s := &suspects[i]
		f.For = append(f.For, Sign{model.Evidence{Target: s.target, At: &s.outage.Start,
			Text: fmt.Sprintf("%s failed at its own address: %s", s.pod.Name, quantity.ClassCounts(s.outage.Classes))}, Measured})
	}
	f.For = append(f.For, Sign{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + quantity.ClassCounts(w.Classes)}, Watched})
	f.For = append(f.For, context(v.othersAnswered(w, suspects)...)...)
	v.moreThanTheirShare(w, len(suspectPods(suspects)), f)
	f.explains(w, v.madeBy(w, suspects))
}

// exitedItself reports whether a Pod's containers ended before anybody asked it to end.
func exitedItself(p *model.Pod) bool { return p.Exited != nil && !p.TerminatingBy(p.Exited.Latest) }

// failedAlso are the other Pods that were ready before, and failed at their own addresses while these did.
func (v *index) failedAlso(w *model.Window, suspects []suspect) []*model.Pod {
	return suspectPods(v.suspectsBeside(w, suspects))
}

// suspectsBeside are those of other Pods, which failed while these did.
func (v *index) suspectsBeside(w *model.Window, suspects []suspect) []suspect {
	return v.suspectsThat(w, func(s suspect) bool {
		return !slices.ContainsFunc(suspects, func(o suspect) bool { return o.pod == s.pod }) && slices.ContainsFunc(suspects, func(o suspect) bool { return o.outage.Span().Overlaps(s.outage.Span()) })
	})
}

// olderAlike compares young Pods with others that failed as they did, and had answered before. If these can have made as many of the window's failures,
// it says why it is not that Pods are young; if they can have made half as many, that is a doubt.
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

// suspectPods are the Pods of suspects, each once.
func suspectPods(suspects []suspect) []*model.Pod {
	var pods []*model.Pod
	seen := map[string]bool{}
	for _, s := range suspects {
		if !seen[s.pod.UID] {
			seen[s.pod.UID] = true
			pods = append(pods, s.pod)
		}
	}
	return pods
}

// othersAnswered is that the other Pods answered at their own addresses all the time.
func (v *index) othersAnswered(w *model.Window, suspects []suspect) []model.Evidence {
	accused := map[string]bool{}
	for _, s := range suspects {
		accused[s.pod.UID] = true
	}
	var clean []model.Evidence
	for _, p := range v.healthyOthers(w) {
		if name := v.directName(w, p); !accused[p.UID] && v.outageNear(name, w.Span()) == nil {
			clean = append(clean, model.Evidence{Target: name, Text: p.Name + " went on answering at its own address"})
		}
	}
	if len(clean) > 3 {
		return []model.Evidence{{Text: fmt.Sprintf("%d other Pods went on answering at their own addresses", len(clean))}}
	}
	return clean
}

// moreThanTheirShare has a doubt if more failed than the share that n Pods had of the endpoints.
func (v *index) moreThanTheirShare(w *model.Window, n int, f *Finding) {
	if v.target(w).Kind != timeline.New || v.laneOff("endpointslice", w) {
		return
	}
	least := v.service(w).leastReady(w.Start.Earliest-cluster.WatchLag, w.End.Latest)
	if least == math.MaxInt {
		least = v.service(w).mostReady(w.Start.Earliest, w.End.Latest)
	}
	if least > 0 && exceeds(w.Failed, w.Sent, min(1, float64(n)/float64(least))) {
		f.against(doubt(v.byHowMuch(w, min(1, float64(n)/float64(least))), fmt.Sprintf("%d of %d requests failed: more than the share of %s of %d", w.Failed, w.Sent, quantity.Count(n, "endpoint"), least)))
	}
}

// byHowMuch is what it says against a cause that more failed than the share of the endpoints that it is about: if it is twice as much, most
// had another cause, unless the Service prefers some endpoints.
func (v *index) byHowMuch(w *model.Window, share float64) Strength {
	spec := v.serviceSpec(w)
	prefers := spec != nil && (spec.Snapshot.Service.Affinity != "" || spec.Snapshot.Service.Internal == localPolicy || spec.Snapshot.Service.Distribution != "")
	if !prefers && exceeds(w.Failed/2, w.Sent, share) {
		return Watched
	}
	return Close
}

// exceeds reports whether more failed than chance allows at this probability: more than three
// standard deviations above the mean. Fewer is no contradiction, for a window also holds the good
// requests between two of its runs of failures.
func exceeds(failed, sent int, p float64) bool {
	mean := float64(sent) * p
	return float64(failed) > mean+3*math.Sqrt(mean*(1-p))+1
}
