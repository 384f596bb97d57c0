package evidence

import (
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is about Pods that failed at their own addresses while requests were routed to them.
//
// Where a Pod fails alike at its own address and through the Service, and other Pods do not, the Pod is the cause and
// no route is. How the address failed must leave one reading: the failures have its classes, at its times, and no more
// than its share of the requests. On a busy machine a healthy Pod looks hung, so pod-hung needs half a timeout for more
// than low. One Pod of a node that is cut off looks as one that a NetworkPolicy isolates: node-unreachable is low then.

// Suspects is the Pods that failed at their own addresses though they were ready.
type Suspects struct {
	*Input
	traffic   *Traffic
	changes   *Changes
	services  *Services
	addresses *Addresses
	suspected map[*model.Window][]Suspect
	outages   map[*Service][]Suspect
}

// A Suspect is a Pod that failed at its own address while its endpoint was ready. That was not its end.
type Suspect struct {
	Pod    *model.Pod
	Target string        // of its own address
	Outage *model.Window // of that target
	From   time.Duration // requests can have been routed to it while it failed from then
	Until  time.Duration // until then
}

// Whole reports whether the address failed all the time, and not only some of its requests.
func (s *Suspect) Whole() bool { return s.Outage.Share >= NearlyAll }

// Wholly returns a condition that also requires that the address failed all the time.
func Wholly(is func(*model.Window) bool) func(*model.Window) bool {
	return func(u *model.Window) bool { return is(u) && u.Share >= NearlyAll }
}

// InParts returns the doubt that a suspect's address answered some requests meanwhile.
func InParts(suspects []Suspect, text string) []Sign {
	for i := range suspects {
		if s := &suspects[i]; !s.Whole() {
			answered := s.Outage.Sent - s.Outage.Failed
			return []Sign{Watched.Doubt(fmt.Sprintf("%s answered %d of %d requests to its own address meanwhile: %s",
				s.Pod.Name, answered, s.Outage.Sent, text))}
		}
	}
	return nil
}

// All returns the Pods behind a window that failed at their own addresses during it, one for each outage. The
// prober's own trouble is none.
func (v *Suspects) All(w *model.Window) []Suspect {
	if known, ok := v.suspected[w]; ok {
		return known
	}
	var found []Suspect
	for _, s := range v.OwnOutages(w) {
		if s.Outage.Span().Overlaps(w.Span()) {
			found = append(found, s)
		}
	}
	v.suspected[w] = found
	return found
}

// That returns the suspects that satisfy is.
func (v *Suspects) That(w *model.Window, is func(Suspect) bool) []Suspect {
	var found []Suspect
	for _, s := range v.All(w) {
		if is(s) {
			found = append(found, s)
		}
	}
	return found
}

// OwnOutages returns the outages of all Pods behind the window's Service.
func (v *Suspects) OwnOutages(w *model.Window) []Suspect {
	svc := v.services.Service(w)
	outages, known := v.outages[svc]
	if known {
		return outages
	}
	for _, p := range svc.pods {
		for _, t := range v.addresses.DirectOf(w, p) {
			for i := range v.traffic.Measured(t).Outages {
				u := &v.traffic.Measured(t).Outages[i]
				if u.Kind == model.Slow || v.addresses.canBeItsEnd(p, t, u) ||
					!routedTo(p, u.Start.Latest, u.End.Earliest) || v.addresses.proberMade(t, u) {
					continue
				}
				s := Suspect{Pod: p, Target: t.Name, Outage: u, From: u.Start.Earliest, Until: u.End.Latest}
				if p.EndpointReady != nil && !p.ReadyBy(u.Start.Earliest) { // else it is the time when it came back
					s.From = max(s.From, p.EndpointReady.Earliest)
				}
				outages = append(outages, s)
			}
		}
	}
	v.outages[svc] = outages
	return outages
}

// routedTo reports whether the Pod's endpoint was ready at some time between two instants, as far as its lane and the
// watch tell.
func routedTo(p *model.Pod, from, to time.Duration) bool {
	if p.ReadyWithin(from, to) {
		return true
	}
	return p.EndpointReady != nil && p.EndpointReady.Earliest <= to &&
		(p.EndpointNotReady == nil || p.EndpointNotReady.Latest >= from ||
			p.EndpointNotReady.Latest < p.EndpointReady.Earliest)
}

// MadeBy returns how many failures of a window the suspects can explain: each failed as one of their own addresses did,
// while requests were routed to it, or once one of them had left no endpoint.
func (v *Suspects) MadeBy(w *model.Window, suspects []Suspect) int {
	n := 0
	own := v.traffic.Failures(w)
	empty := v.emptied(w, suspects)
	for i := range own {
		if at := own[i].Earliest(); empty.Earliest <= at && at <= empty.Latest {
			n++
			continue
		}
		for _, s := range suspects {
			if s.canHaveMade(&own[i], v.traffic.Target(w).Kind) {
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

// emptied returns when the Service had no endpoint because a suspect failed: it was the last that left, as not ready,
// and nothing had been answered for a while. It returns a time before the run if there was no such time.
func (v *Suspects) emptied(w *model.Window, suspects []Suspect) model.Instant {
	span := EmptyNear(v.services, w)
	if span != nil && w.Kind == model.Outage && w.Start.Latest < span.Start.Earliest &&
		span.Last.To == timeline.EndpointNotReady {
		for _, s := range suspects {
			if s.Pod.UID == span.Last.Object.UID && s.Outage.Span().Overlaps(span.Start) {
				return model.Instant{Earliest: span.Start.Earliest, Latest: span.End.Latest + TooLate}
			}
		}
	}
	return model.Instant{Earliest: -1, Latest: -1}
}

// canHaveMade reports whether the Pod's trouble can explain a failed request to a target of this kind: it failed as the
// Pod's own address did, or on a connection from before the address became unreachable.
func (s *Suspect) canHaveMade(f *model.Failure, kind timeline.TargetKind) bool {
	if f.Earliest() > s.Until || Arrived(f) < s.From {
		return false
	}
	if s.Outage.Classes[f.Class.String()] > 0 {
		return true
	}
	lost := Count(s.Outage.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.Unreachable) > 0
	return lost && (f.Class == timeline.NoSlot || f.Class == timeline.TimeoutResponse &&
		(kind == timeline.Reused || f.Earliest() <= s.Outage.Start.Latest))
}

// FailedAlso returns the other Pods that were ready before, and failed at their own addresses while these did.
func (v *Suspects) FailedAlso(w *model.Window, suspects []Suspect) []*model.Pod {
	return SuspectPods(v.Beside(w, suspects))
}

// Beside returns the suspects of other Pods that failed at the same time as these.
func (v *Suspects) Beside(w *model.Window, suspects []Suspect) []Suspect {
	return v.That(w, func(s Suspect) bool {
		return !slices.ContainsFunc(suspects, func(o Suspect) bool {
			return o.Pod == s.Pod
		}) && slices.ContainsFunc(suspects, func(o Suspect) bool {
			return o.Outage.Span().Overlaps(s.Outage.Span())
		})
	})
}

// SuspectPods returns the Pods of suspects, each once.
func SuspectPods(suspects []Suspect) []*model.Pod {
	var pods []*model.Pod
	seen := map[string]bool{}
	for _, s := range suspects {
		if !seen[s.Pod.UID] {
			seen[s.Pod.UID] = true
			pods = append(pods, s.Pod)
		}
	}
	return pods
}

// OthersAnswered returns the evidence that the other Pods answered at their own addresses all the time.
func (v *Suspects) OthersAnswered(w *model.Window, suspects []Suspect) []model.Evidence {
	accused := map[string]bool{}
	for _, s := range suspects {
		accused[s.Pod.UID] = true
	}
	var clean []model.Evidence
	for _, p := range v.addresses.HealthyOthers(w) {
		if name := v.addresses.DirectName(w, p); !accused[p.UID] && v.traffic.OutageNear(name, w.Span()) == nil {
			clean = append(clean, model.Evidence{Target: name, Text: p.Name + " went on answering at its own address"})
		}
	}
	if len(clean) > 3 {
		return []model.Evidence{{Text: fmt.Sprintf("%d other Pods went on answering at their own addresses",
			len(clean))}}
	}
	return clean
}

// AnswersBadly reports whether an address answered, if badly: packets to it were not lost.
func AnswersBadly(u *model.Window) bool {
	return 2*Count(u.Classes, timeline.TimeoutConnect, timeline.Unreachable) < u.Failed
}

// Hangs reports whether an address accepted connections and did not answer. Once its queue is full, further connections
// time out.
func (v *Suspects) Hangs(s Suspect) bool {
	u := s.Outage
	answers, connects := Count(u.Classes, timeline.TimeoutResponse), Count(u.Classes, timeline.TimeoutConnect)
	return answers > 0 && (answers >= connects || answers > v.traffic.underWay(s.Target)) &&
		Only(u.Classes, timeline.TimeoutResponse, timeline.TimeoutConnect, timeline.NoSlot)
}

// FailedHow says what a Pod did instead of answering well.
func (v *Suspects) FailedHow(s Suspect) string {
	did := "failed: " + quantity.ClassCounts(s.Outage.Classes)
	if 2*Count(s.Outage.Classes, timeline.Refused) > s.Outage.Failed {
		did = "refused connections"
	}
	for _, e := range v.traffic.Errors {
		if e.Object.Name == s.Target && e.Status > 0 && 2*s.Outage.Classes[e.To] > s.Outage.Failed {
			did = "answered with " + e.Detail
		}
	}
	return did
}

// Lasted says how long a window lasted: "for 3 s", or "for an unknown time".
func Lasted(w *model.Window) string {
	length := quantity.Length(w.Length, w.Open != model.Open{})
	if length == quantity.UnknownLength {
		return "for an unknown time"
	}
	return "for " + length
}

// ExitedItself reports whether a Pod's containers ended before its end was requested.
func ExitedItself(p *model.Pod) bool { return p.Exited != nil && !p.TerminatingBy(p.Exited.Latest) }
