package correlate

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
)

// servedLonger are the lengths for which a [model.KeepServing] says what would have been left.
var servedLonger = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond,
	700 * time.Millisecond,
	time.Second, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second, 5 * time.Second, 7 * time.Second,
	10 * time.Second,
}

// keepServing counts the failures that a Pod that serves longer would have answered. Where several Pods had stopped,
// which of them a request was routed to is not known: it needed as long as the one that stopped last at least, and as
// the one that stopped first at most.
//
// A formula (rate ÷ endpoints × lag) would need the lag, a load that is shared evenly, and one Pod at a time. Each
// failed request is on record with when it was sent, so failures are counted instead. Candidates are all Pods that
// stopped in the window, not only those that the cause names: with these 21 of 172 points of simulated rollouts missed
// the truth.
func keepServing(tl *model.Timeline) *model.KeepServing {
	if tl.FailuresTruncated > 0 || !slices.ContainsFunc(tl.Windows, func(w model.Window) bool {
		return routesOutlived(&w)
	}) {
		return nil
	}
	needed, foreign := longerNeeded(tl)
	if len(needed) == 0 {
		return nil
	}
	curve := &model.KeepServing{Failed: len(needed), Others: len(tl.Failures) - len(needed)}
	for _, longer := range servedLonger {
		left := model.ServedLonger{Longer: longer, Max: foreign}
		for _, n := range needed {
			if n.Min > longer {
				left.Min++
			}
			if n.Max > longer {
				left.Max++
			}
		}
		left.Max = min(left.Max, curve.Failed)
		if curve.Left = append(curve.Left, left); left.Max == 0 {
			break
		}
	}
	if known := curve.Left[0].Min > 0 || curve.Left[len(curve.Left)-1].Max < curve.Failed; !known {
		return nil
	}
	return curve
}

// longerNeeded returns, for each failure in the windows in which routes outlived Pods, how much longer a Pod would have
// had to serve. foreign are how many failures of these windows have another cause, whichever they are.
func longerNeeded(tl *model.Timeline) (needed []model.Length, foreign int) {
	answer := map[string]time.Duration{} // by target: how long answers take
	service := map[string]string{}       // by target
	measured := map[string][]string{}    // by a Pod's UID: the Services for which its own address is
	for _, t := range tl.Targets {
		service[t.Name] = t.Service
		if t.Latency != nil {
			answer[t.Name] = t.Latency.P99
		}
		if t.PodUID != "" {
			measured[t.PodUID] = append(measured[t.PodUID], t.Service)
		}
	}
	counted := map[int]bool{} // failures, by their place in the list
	for i := range tl.Windows {
		w := &tl.Windows[i]
		if !routesOutlived(w) {
			continue
		}
		stops := stopsAround(tl, w, func(p *model.Pod) bool {
			of, known := measured[p.UID]
			return !known || slices.Contains(of, service[w.Target])
		})
		if n := w.Causes[0].Explains; n > 0 {
			foreign += w.Failed - n
		}
		first, _ := slices.BinarySearchFunc(tl.Failures, w.Start.Earliest, func(f model.Failure, at time.Duration) int {
			return cmp.Compare(f.Sent, at)
		})
		for j := first; j < len(tl.Failures) && tl.Failures[j].Sent <= w.End.Latest; j++ {
			f := &tl.Failures[j]
			if counted[j] || f.Target != w.Target {
				continue
			}
			counted[j] = true
			needed = append(needed, neededBy(f, answer[w.Target], stops))
		}
	}
	return needed, foreign
}

// routesOutlived reports whether a window has, as its first cause, that routes outlived Pods, with at least medium
// confidence.
func routesOutlived(w *model.Window) bool {
	return w.Kind != model.Slow && len(w.Causes) > 0 && w.Causes[0].Confidence != model.Low && len(lagsIn(w)) > 0
}

// lagsIn returns how long routes led to Pods after they had stopped, by the Pods' names, as far as a window's first
// cause measured it.
func lagsIn(w *model.Window) map[string]model.Length {
	lags := map[string]model.Length{}
	for _, m := range w.Causes[0].Measures {
		if m.Name == model.RouteLag {
			lags[m.Object] = m.Length
		}
	}
	return lags
}

// A podStopped is a Pod that had stopped when requests were routed to it, perhaps, until some instant.
type podStopped struct {
	stopped model.Instant
	routed  time.Duration
}

// stopsAround returns the Pods that requests of a window can have been routed to after they had stopped: those of its
// Service that stopped in it.
func stopsAround(tl *model.Timeline, w *model.Window, mayServe func(*model.Pod) bool) (stops []podStopped) {
	lags := lagsIn(w)
	for i := range tl.Pods {
		p := &tl.Pods[i]
		lag, measured := lags[p.Name]
		switch {
		case !mayServe(p), !measured && p.Stopped != nil && (p.Stopped.Latest < w.Start.Earliest ||
			p.Stopped.Earliest > w.End.Latest):
			continue
		case !measured && p.Stopped == nil && (p.Deleted == nil || p.Deleted.Earliest > w.End.Latest):
			continue // it served
		}
		s := podStopped{stopped: model.Instant{Earliest: model.Unbounded, Latest: model.Never}, routed: model.Never}
		if p.Stopped != nil {
			s.stopped = *p.Stopped
			if measured {
				s.routed = p.Stopped.Latest + lag.Max
			}
		}
		stops = append(stops, s)
	}
	return stops
}

// neededBy returns for how much longer the Pod that a failed request was routed to would have had to serve: at least
// until it was sent, and at most until it was answered.
func neededBy(f *model.Failure, answer time.Duration, stops []podStopped) model.Length {
	l := model.Length{Min: model.Never}
	for _, s := range stops {
		if f.Latest() < s.stopped.Earliest || f.Sent-f.Error > s.routed {
			continue // it had failed before the Pod stopped, or was sent after the Pod was routed to
		}
		if s.stopped.Latest == model.Never {
			return model.Length{Max: model.Never} // when it stopped is not known
		}
		l.Min = min(l.Min, max(0, f.Sent-f.Error-s.stopped.Latest))
		l.Max = max(l.Max, f.Sent+f.Error+answer-s.stopped.Earliest)
	}
	if l.Min == model.Never { // none of them can have answered it
		return model.Length{Max: model.Never}
	}
	return l
}
