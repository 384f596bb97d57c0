package causes

import (
	"fmt"
	"math"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is what several rules ask of Pods that failed at their own addresses while requests were routed to them.
//
// Where a Pod fails alike at its own address and through the Service, and other Pods do not, the Pod is the cause and
// no route is. How the address failed must leave one reading: the failures have its classes, at its times, and no more
// than its share of the requests. On a busy machine a healthy Pod looks hung, so pod-hung needs half a timeout for more
// than low. One Pod of a node that is cut off looks as one that a NetworkPolicy isolates: node-unreachable is low then.

// A suspect is a Pod that failed at its own address while its endpoint was ready. That was not its end.
type suspect struct {
	pod    *model.Pod
	target string        // of its own address
	outage *model.Window // of that target
	from   time.Duration // requests can have been routed to it while it failed from then
	until  time.Duration // until then
}

// nearlyAll is the share of its requests that an address fails which does not answer at all: more than chance leaves
// of what was under way.
const nearlyAll = 0.9

// whole reports whether the address failed all the time, and not only some of its requests.
func (s *suspect) whole() bool { return s.outage.Share >= nearlyAll }

// longSilence is for how long an address must have been silent within a window that is less than its outage.
const longSilence = time.Second

// silent reports whether a suspect's address failed all the time, or all the time of its outage that is within the
// window: a Pod that can be reached again may fail again at once, because it ends.
func (v *index) silent(w *model.Window, s *suspect) bool {
	from, to := max(s.outage.Start.Latest, w.Start.Latest), min(s.outage.End.Earliest, w.End.Earliest)
	if s.whole() || to-from < longSilence {
		return s.whole()
	}
	answered, sent := v.Answered(v.targetNamed(s.target).ID, from, to)
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

// suspects are the Pods behind a window that failed at their own addresses during it, one for each outage. The
// prober's own trouble is none.
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
			for i := range v.probed(t).Outages {
				u := &v.probed(t).Outages[i]
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

// canBeItsEnd reports whether an outage of a Pod's own address can be that the Pod ended: it may have been ending
// when that began, and did not go on answering later. When a Pod was deleted is known to the second, so one that was
// cut off may seem to have been ending. One that was seen to be deleted before, and that packets reached, ends even if
// it answers again: SIGTERM restarts some servers.
func (v *index) canBeItsEnd(p *model.Pod, t *model.Target, u *model.Window) bool {
	if !p.TerminatingBy(u.Start.Latest) {
		return false
	}
	last := v.probed(t).FirstLast.LastOK
	return last == nil || last.Sent < u.Start.Latest+apart || p.Deleted != nil && p.Deleted.Latest <= u.Start.Latest+moment && !unreached(u)
}

// routedTo reports whether the Pod's endpoint was ready at some time between two instants, as far as its lane and the
// watch tell.
func routedTo(p *model.Pod, from, to time.Duration) bool {
	if p.ReadyWithin(from, to) {
		return true
	}
	return p.EndpointReady != nil && p.EndpointReady.Earliest <= to && (p.EndpointNotReady == nil || p.EndpointNotReady.Latest >= from || p.EndpointNotReady.Latest < p.EndpointReady.Earliest)
}

// proberMade reports whether the outage of a target is no longer than what a standstill of its prober, or trouble of
// the control target, can have made of good answers.
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

// madeBy counts the failures of a window that the suspects can have made: each failed as one of their own addresses
// did, at a time when requests were routed to it.
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

// canHaveMade reports whether a request to a target of this kind can have failed for what ailed the Pod: as its own
// address did, or on a connection that was there before the address could not be reached any more.
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

// accuse completes a finding that names suspects: what their own addresses say, how many of the failures they can
// have made, and what the other Pods' addresses say. The text and the fix are the rule's.
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

// unreached reports whether nothing tells that a packet to an address arrived.
func unreached(u *model.Window) bool {
	return only(u.Classes, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot) && some(u.Classes, timeline.TimeoutConnect, timeline.Unreachable) > 0
}

// answersBadly reports whether an address was there and answered, if badly: no packet to it was lost.
func answersBadly(u *model.Window) bool {
	return 2*some(u.Classes, timeline.TimeoutConnect, timeline.Unreachable) < u.Failed
}

// hangs reports whether an address accepted connections and did not answer. Once nobody takes them from its queue,
// and it is full, further ones time out.
func (v *index) hangs(s suspect) bool {
	u := s.outage
	answers, connects := some(u.Classes, timeline.TimeoutResponse), some(u.Classes, timeline.TimeoutConnect)
	return answers > 0 && (answers >= connects || answers > v.underWay(s.target)) && only(u.Classes, timeline.TimeoutResponse, timeline.TimeoutConnect, timeline.NoSlot)
}

// underWay is how many requests to a target can have been under way at one time while it answered.
func (v *index) underWay(target string) int {
	t := v.targets[target]
	if t == nil || t.Latency == nil {
		return math.MaxInt
	}
	return 2 + int(2*t.Rate*t.Latency.P99.Seconds())
}

// failedHow says what a Pod did instead of answering well.
func (v *index) failedHow(s suspect) string {
	did := "failed: " + quantity.ClassCounts(s.outage.Classes)
	if 2*some(s.outage.Classes, timeline.Refused) > s.outage.Failed {
		did = "refused connections"
	}
	for _, e := range v.errors {
		if e.Object.Name == s.target && e.Status > 0 && 2*s.outage.Classes[e.To] > s.outage.Failed {
			did = "answered with " + e.Detail
		}
	}
	return did
}

// lasted says for how long a window went on: "for 3 s"; in words where nothing is known of it.
func lasted(w *model.Window) string {
	length := quantity.Length(w.Length, w.Open != model.Open{})
	if length == quantity.UnknownLength {
		return "for a time that is not known"
	}
	return "for " + length
}

// exitedItself reports whether a Pod's containers ended before anybody asked it to end.
func exitedItself(p *model.Pod) bool { return p.Exited != nil && !p.TerminatingBy(p.Exited.Latest) }
