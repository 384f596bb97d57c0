package evidence

import (
	"cmp"
	"slices"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file holds how a Pod fails at its own address after it was asked to end. Few servers only refuse connections
// then: some answer with errors, because another container of the Pod has ended; some accept connections and never
// answer, because a worker still holds the socket; some answer again, because SIGTERM restarts them.

// Endings is how Pods ended, and how they failed meanwhile.
type Endings struct {
	*Input
	traffic   *Traffic
	changes   *Changes
	templates Templates
	services  *Services
	addresses *Addresses
}

// An endFailure is an outage of the own address of a Pod that was ending.
type endFailure struct {
	Target string        // of its own address
	From   model.Instant // requests that were sent from then on failed
	Outage *model.Window
	Again  bool // it answered well after that
}

// EndFailures returns the outages of a Pod's own address that began after its deletion, in order.
func (v *Endings) EndFailures(w *model.Window, p *model.Pod) (all []endFailure) {
	for _, t := range v.addresses.DirectOf(w, p) {
		for i := range v.traffic.Measured(t).Outages {
			u := &v.traffic.Measured(t).Outages[i]
			if u.Kind == model.Slow || !v.addresses.canBeItsEnd(p, t, u) || v.addresses.proberMade(t, u) {
				continue
			}
			last := v.traffic.Measured(t).FirstLast.LastOK
			all = append(all, endFailure{Target: t.Name, From: v.beganToFail(t, u), Outage: u, Again: last != nil &&
				last.Sent >= u.End.Earliest && !u.Open.End})
		}
	}
	slices.SortStableFunc(all, func(a, b endFailure) int { return cmp.Compare(a.From.Earliest, b.From.Earliest) })
	return all
}

// beganToFail returns when requests to an address began to fail. A request that times out or is cut while it waits is
// known to fail only later. But if no request failed before the last answer, the first failed one would have been
// answered within the longest time that an answer took, if the address had not begun to fail by then.
func (v *Endings) beganToFail(t *model.Target, u *model.Window) model.Instant {
	edge, from := v.traffic.Measured(t).FirstLast, u.Start
	last, first := edge.LastOK, edge.FirstFailure
	if last == nil || last.Sent < from.Earliest || last.Sent > from.Latest {
		return from
	}
	from.Earliest = last.Sent
	if late := Count(u.Classes, timeline.TimeoutResponse) + Count(u.Classes, CutClasses...); late > 0 &&
		first != nil && first.Seq > last.Seq && t.Latency != nil && !sendsDatagrams(t) {
		from.Latest = min(from.Latest, first.Sent+t.Latency.Max)
	}
	return from
}

// made reports whether a request failed as the Pod's own address did at that time. If the address was not probed any
// more, a request that got no connection counts.
func (e *endFailure) made(f *model.Failure) bool {
	if Arrived(f) < e.From.Earliest || e.Again && f.Earliest() > e.Outage.End.Latest {
		return false
	}
	classes := e.Outage.Classes
	switch f.Class {
	case timeline.Refused, timeline.Unreachable:
		return Count(classes, unconnected...) > 0 || !e.Again && f.Earliest() > e.Outage.End.Earliest
	case timeline.TimeoutConnect: // also once the queue of a silent server is full
		return Count(classes, unconnected...)+Count(classes, timeline.TimeoutResponse) > 0 || !e.Again &&
			f.Earliest() > e.Outage.End.Earliest
	case timeline.Reset, timeline.EOF, timeline.Body:
		return Count(classes, CutClasses...) > 0
	case timeline.NoSlot:
		return Count(classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.Unreachable,
			timeline.NoSlot) > 0
	case timeline.DNS:
		return false
	}
	return classes[f.Class.String()] > 0
}

// BeganThen returns the outage of an ending Pod's own address that began in a time; nil if there is none.
func (v *Endings) BeganThen(w *model.Window, p *model.Pod, at model.Instant) *endFailure {
	for _, e := range v.EndFailures(w, p) {
		if e.From.Earliest <= at.Latest+Moment && at.Earliest <= e.From.Latest+Moment {
			return &e
		}
	}
	return nil
}

// endedAs reports whether an ending Pod failed at its own address in the same way as requests of the window.
func (v *Endings) endedAs(w *model.Window) bool {
	for _, p := range v.services.Pods(w) {
		if !p.TerminatingBy(w.End.Latest) {
			continue
		}
		for _, e := range v.EndFailures(w, p) {
			if e.From.Earliest <= w.End.Latest && sharesClass(w, e.Outage) {
				return true
			}
		}
	}
	return false
}

// failedSo returns an outage of the Pod's own address before its deletion with the same kind of failures as while it
// ended; nil if there is none.
func (v *Endings) failedSo(w *model.Window, p *model.Pod, e endFailure) *model.Window {
	for _, t := range v.addresses.DirectOf(w, p) {
		for i := range v.traffic.Measured(t).Outages {
			u := &v.traffic.Measured(t).Outages[i]
			if u.Kind != model.Slow && u.Start.Latest < e.From.Earliest && !v.addresses.canBeItsEnd(p, t, u) &&
				(p.Ready == nil || u.End.Earliest > p.Ready.Earliest) && sharesClass(u, e.Outage) {
				return u
			}
		}
	}
	return nil
}

// sharesClass reports whether two windows have a class of failures in common.
func sharesClass(w, o *model.Window) bool {
	for class, n := range w.Classes {
		if n > 0 && o.Classes[class] > 0 {
			return true
		}
	}
	return false
}
