package evidence

import (
	"fmt"
	"slices"
	"time"

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
	Outside   bool          // no node leads requests to it, but what is behind a URL
	Published bool          // its endpoint counts as ready until the Pod has gone: publishNotReadyAddresses
	shared    bool          // failed requests after that may have been routed to it, or to another Pod

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

// Signs returns the sign that the Pod itself stopped answering, or how it failed from then on, if that was measured.
func (s *PodStop) Signs() []Sign {
	if !s.Proved {
		return nil
	}
	text := s.Pod.Name + " itself stopped answering"
	if !s.Quiet {
		text = fmt.Sprintf("%s failed at its own address from then on: %s", s.Pod.Name,
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
// exits), and not after its containers had ended or it was gone.
func stopByWatch(p *model.Pod) (stop model.Instant, known bool) {
	if p.Deleted == nil {
		return model.Instant{}, false
	}
	stop.Earliest = p.Deleted.Earliest
	switch {
	case p.Exited != nil:
		stop.Latest = p.Exited.Latest
	case p.Gone != nil:
		stop.Latest = p.Gone.Latest
	default:
		stop.Latest = p.Deleted.Latest // still to be seen
	}
	return stop, stop.Earliest <= stop.Latest
}

// FollowSlack is how long after a Pod's stop the first request can fail: a proxy notices when it next uses a connection
// that it keeps to the Pod.
const FollowSlack = time.Second

// Stopped returns the ending Pods that stopped as the window's requests began to fail, the last to stop first.
func (v *Endings) Stopped(w *model.Window) (stops []*PodStop) {
	for _, p := range v.services.Pods(w) {
		at, known := stopByWatch(p)
		probe := v.addresses.Probe(w, p)
		if probe.Stopped != nil {
			at, known = *probe.Stopped, true
		}
		if !known || !v.services.WasEndpoint(w, p, at.Latest) || w.Start.Latest < at.Earliest ||
			w.Start.Earliest > at.Latest+FollowSlack {
			continue
		}
		stops = append(stops, &PodStop{Pod: p, Target: probe.Target, At: at, Proved: probe.Stopped != nil,
			exited: p.Exited != nil, Quiet: true})
	}
	slices.SortStableFunc(stops, func(a, b *PodStop) int { return int(b.At.Latest - a.At.Latest) })
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
