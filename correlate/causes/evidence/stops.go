package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is about a Pod's stop: when it was, and how long requests were still routed to the Pod.

// A PodStop is a Pod that ended: when it stopped, and how long requests were still routed to it.
type PodStop struct {
	Pod    *model.Pod
	Target string        // of the Pod's own address; "" if there is none
	At     model.Instant // when it stopped
	Proved bool          // by its own address
	exited bool          // by the watch, which saw its containers end
	order  int           // its place in the order in which endpoints left; -1 if it was not seen to leave
	left   time.Duration // when it was seen to leave

	routed    time.Duration // Sent of the last failed request that proves that it was routed to; -1 if none does
	gone      time.Duration // by then it was not routed to any more
	unwatched bool          // when its endpoint left is not known, for EndpointSlices were not watched
	Alone     model.Instant // until then no other endpoint was ready: nodes had to route to it; zero if one was
	Outside   bool          // no node leads requests to it, but what is behind a URL
	Published bool          // its endpoint counts as ready until the Pod has gone: publishNotReadyAddresses
	shared    bool          // failed requests after that may have been routed to it, or to another Pod
	Stray     bool          // one of these came after so many successes that it was most likely not routed to it

	fails    []endFailure  // how its own address failed from then on; empty if that was not measured
	known    time.Duration // when that was known; 0 if it was not measured
	answered time.Duration // until then it was there and answered, if badly; 0 if that is not known
	Quiet    bool          // its own address only refused connections, or cut them, and for good
}

// Lag returns how long the Pod was routed to after it had stopped.
func (s *PodStop) Lag() model.Length {
	least := max(0, s.routed-s.At.Latest)
	return model.Length{Min: least, Max: max(least, s.gone-s.At.Earliest)}
}

// About says the lag in words. If a part of it may be another Pod's, it says only the proven part.
func (s *PodStop) About() string {
	lag := s.Lag()
	if s.shared && lag.Min > 0 {
		return "≥ " + quantity.Lowest(lag.Min)
	}
	return quantity.Length(lag, false)
}

// Signs returns the sign that the Pod stopped answering new clients, or how it failed from then on, if that was
// measured.
func (s *PodStop) Signs() []Sign {
	if !s.Proved {
		return nil
	}
	text := s.Pod.Name + " stopped answering new clients"
	if !s.Quiet {
		text = fmt.Sprintf("%s failed when probed at its own address, from then on: %s", s.Pod.Name,
			quantity.ClassCounts(s.fails[0].Outage.Classes))
	}
	return []Sign{Measured.Target(s.Target, &s.At, text)}
}

// ServedAfterKilling returns how long the Pod is known to have served after its kubelet began to end it; 0 if that is
// not known, or within the margin.
func (s *PodStop) ServedAfterKilling() time.Duration {
	if s.Pod.Killing == nil || s.At.Earliest-s.Pod.Killing.Latest < RouteMargin/10 {
		return 0
	}
	return s.At.Earliest - s.Pod.Killing.Latest
}

// stopByWatch bounds a Pod's stop by what was watched: not before its deletion (it may stop listening long before it
// exits), and not after its containers had ended or it was gone. If its end was not seen, it may have stopped at any
// time until the end of the run.
func (v *Endings) stopByWatch(p *model.Pod) (stop model.Instant, known bool) {
	if p.Deleted == nil {
		return model.Instant{}, false
	}
	stop = model.Instant{Earliest: p.Deleted.Earliest, Latest: v.traffic.End()}
	switch {
	case p.Exited != nil:
		stop.Latest = p.Exited.Latest
	case p.Gone != nil:
		stop.Latest = p.Gone.Latest
	}
	return stop, stop.Earliest <= stop.Latest
}

// FollowSlack is how long after a Pod's stop the first request can fail: a proxy notices when it next uses a connection
// that it keeps to the Pod.
const FollowSlack = time.Second

// Stopped returns the ending Pods that stopped as the window's requests began to fail, the last to leave the endpoints
// first. Those whose end was not seen are not among them.
func (v *Endings) Stopped(w *model.Window) []*PodStop {
	stops := slices.DeleteFunc(v.stops(w), func(s *PodStop) bool {
		endSeen := s.Proved || s.exited || s.Pod.Gone != nil
		return !endSeen || w.Start.Latest < s.At.Earliest || w.Start.Earliest > s.At.Latest+FollowSlack
	})
	slices.SortStableFunc(stops, func(a, b *PodStop) int {
		return cmp.Or(cmp.Compare(b.leftBy(), a.leftBy()), cmp.Compare(b.At.Latest, a.At.Latest))
	})
	return stops
}

// leftBy returns when the Pod was seen to have left the ready endpoints: at its stop, if that was not watched.
func (s *PodStop) leftBy() time.Duration {
	if s.Pod.EndpointNotReady == nil {
		return s.At.Latest
	}
	return s.Pod.EndpointNotReady.Latest
}

// FollowedLate returns how long what leads the window's requests to Pods was late to follow a stop, if it was until the
// window's end. Once another Pod may have stopped, the failures may be that one's.
func (v *Endings) FollowedLate(w *model.Window, s *PodStop) model.Length {
	until := model.Instant{Earliest: w.End.Earliest, Latest: w.End.Latest}
	for _, other := range v.stops(w) {
		if other.Pod != s.Pod && other.At.Latest > s.At.Latest {
			until.Earliest = min(until.Earliest, other.At.Earliest)
		}
	}
	return Length(s.At, until)
}

// stops returns the ending Pods that had been endpoints, with their stops.
func (v *Endings) stops(w *model.Window) (stops []*PodStop) {
	for _, p := range v.services.Pods(w) {
		at, known := v.stopByWatch(p)
		probe := v.addresses.Probe(w, p)
		if probe.Stopped != nil {
			at, known = *probe.Stopped, true
		}
		if !known || !v.services.WasEndpoint(w, p, at.Latest) {
			continue
		}
		stops = append(stops, &PodStop{Pod: p, Target: probe.Target, At: at, Proved: probe.Stopped != nil,
			exited: p.Exited != nil, Quiet: true})
	}
	return stops
}

// cut reports whether f was in flight when the Pod stopped, so that the stop can have cut it.
func (s *PodStop) cut(f *model.Failure) bool {
	switch f.Class {
	case timeline.Reset, timeline.EOF:
		return f.Earliest() <= s.At.Latest+Moment && s.At.Earliest <= f.Latest() && f.Done-f.Error <= max(s.At.Latest,
			s.known)+Moment
	case timeline.TimeoutResponse:
		return f.Earliest() <= s.At.Latest && s.At.Earliest <= f.Latest()
	}
	return false
}

func (s *PodStop) cutsAny(failures []model.Failure) bool {
	for i := range failures {
		if f := &failures[i]; f.Class != timeline.TimeoutResponse && s.cut(f) {
			return true
		}
	}
	return false
}

// UnmeasuredStops returns a doubt for each Pod whose own address does not show when it stopped.
func UnmeasuredStops(stops []*PodStop) (missing []Sign) {
	for _, s := range stops {
		switch {
		case s.Proved:
		case s.exited:
			missing = append(missing,
				Measured.Doubt(s.Pod.Name+" has no direct target, so its stop is only known from the watch: any "+
					"change about that time fits as well"))
		default:
			missing = append(missing,
				Watched.Doubt("only closeness in time: neither a direct target nor its container's end tells when "+
					s.Pod.Name+" stopped"))
		}
	}
	return missing
}

// RouteMargin is added to the longest time a route was seen to outlive its Pod. One drain is one
// sample: kube-proxy gathers changes for up to its minSyncPeriod, 1 s by default, before it
// rewrites the routes (kubernetes/kubernetes#92836), and how much of that a Pod's end meets is luck.
const RouteMargin = time.Second

// canHaveMade reports whether a request can have failed because it was sent to the Pod after it had stopped.
func (s *PodStop) canHaveMade(f *model.Failure) bool {
	if s.At.Earliest > Arrived(f) || f.Earliest() > s.gone {
		return false
	}
	if len(s.fails) == 0 {
		return windows.Unconnected(f.Class) || f.Class == timeline.NoSlot
	}
	if windows.Unconnected(f.Class) && f.Latest() <= s.answered {
		return false // it was there, and answered badly
	}
	switch formOf(f.Class) { // a request that was sent before may have been under way: see cut
	case CutsAll:
		if f.Earliest() < s.At.Latest {
			return false
		}
	case isSilent:
		if f.Earliest() < s.At.Earliest {
			return false
		}
	}
	return slices.ContainsFunc(s.fails, func(e endFailure) bool { return e.made(f) })
}

// answeredFor is how long after a Pod began to fail its answers are watched to tell whether it is there but answers
// badly.
const answeredFor = 2 * time.Second

// answeredBadly returns until when the Pod is known to have answered, if badly, after it began to fail; 0 if that is
// not known.
func (v *Endings) answeredBadly(s *PodStop) time.Duration {
	if len(s.fails) == 0 || Count(s.fails[0].Outage.Classes, timeline.HTTP5xx, timeline.HTTP4xx, timeline.Body,
		timeline.Other) == 0 {
		return 0
	}
	until := s.At.Latest + answeredFor
	if answered, sent := v.Answered(v.traffic.TargetNamed(s.Target).ID, s.At.Latest, until); sent < 3 ||
		float64(answered) < NearlyAll*float64(sent) {
		return 0
	}
	return until
}

// share returns the share of the requests to its own address that the Pod failed; 1 if that is not known.
func (s *PodStop) share() float64 {
	sent, failed := 0, 0
	for _, e := range s.fails {
		sent, failed = sent+e.Outage.Sent, failed+e.Outage.Failed
	}
	if failed == 0 || float64(failed) >= NearlyAll*float64(sent) {
		return 1
	}
	return float64(failed) / float64(sent)
}

// until returns when the Pod answered well again at its own address; Never if it did not.
func (s *PodStop) until() time.Duration {
	if n := len(s.fails); n > 0 && s.fails[n-1].Again {
		return s.fails[n-1].Outage.End.Latest
	}
	return model.Never
}

// restarted reports whether the Pod stopped listening and then listened again before it ended.
func (s *PodStop) restarted() bool {
	return slices.ContainsFunc(s.fails, func(e endFailure) bool {
		return e.Again && Count(e.Outage.Classes, timeline.Refused) > 0
	})
}

// afterwards says that the Pod answered again before it ended, or answered some requests meanwhile; "" if it did not.
func (s *PodStop) afterwards() string {
	for _, e := range s.fails {
		if !e.Again {
			continue
		}
		text := fmt.Sprintf("; %s later it answered well again", quantity.Length(e.Outage.Length, false))
		if s.restarted() {
			text += ": SIGTERM, or its preStop hook, restarts its server and does not end it"
		}
		return text
	}
	return ""
}

// Peers returns how many endpoints were ready before the first of these Pods left; 0 if that was not watched.
func (s *Service) Peers(stops []*PodStop) int {
	most := 0
	for _, stop := range stops {
		if stop.order >= 0 {
			most = max(most, s.before[stop.order])
		}
	}
	return most
}

// FailedAsWell returns the doubt that a Pod which was ready failed at its own address as the window's requests did, or
// as a part of them.
func (v *Suspects) FailedAsWell(w *model.Window, stops []*PodStop) []Sign {
	for _, s := range v.All(w) {
		alike := 0
		for class, n := range w.Classes {
			if s.Outage.Classes[class] > 0 {
				alike += n
			}
		}
		if 10*alike >= w.Failed && !slices.ContainsFunc(stops, func(o *PodStop) bool { return o.Pod == s.Pod }) {
			strength := Close
			if 2*alike >= w.Failed {
				strength = Watched
			}
			return []Sign{strength.Doubt(fmt.Sprintf("%s failed at its own address as well (%s), though it was ready",
				s.Pod.Name, quantity.ClassCounts(s.Outage.Classes)))}
		}
	}
	return nil
}

// NamedStops names the Pods that stopped.
func NamedStops(stops []*PodStop) string {
	pods := make([]*model.Pod, len(stops))
	for i, s := range stops {
		pods[i] = s.Pod
	}
	return quantity.PodNames(pods)
}
