package evidence

import (
	"time"

	"lapse/correlate/model"
)

// A LongestLag is the Pod of a Service that was routed to for longest after it had stopped, and the window in which
// it was.
type LongestLag struct {
	Stop   *PodStop
	Window *model.Window
	Length time.Duration
}

// LongestLag returns the longest lag of the window's Service. Proven lags rank above possible ones, and measured stops
// above watched ones.
func (v *Routes) LongestLag(w *model.Window) LongestLag {
	svc := v.services.Service(w)
	longest, known := v.longest[svc]
	if known {
		return longest
	}
	for i := range v.Run.Windows {
		other := &v.Run.Windows[i]
		if v.traffic.frontend(v.traffic.TargetNamed(other.Target)) != svc.frontend {
			continue
		}
		r := v.Race(other)
		for _, s := range r.Stops {
			if s.Late() != "" || s.Unclear() || s.Published {
				continue // no Pod can serve that long, or its endpoint is ready for as long as it does
			}
			if lag := (LongestLag{s, other, s.length(&r)}); longest.weaker(lag) {
				longest = lag
			}
		}
	}
	v.longest[svc] = longest
	return longest
}

func (l *LongestLag) weaker(o LongestLag) bool {
	switch {
	case l.Stop == nil:
		return true
	case l.Stop.Proved != o.Stop.Proved:
		return o.Stop.Proved
	case (l.Stop.routed >= 0) != (o.Stop.routed >= 0):
		return o.Stop.routed >= 0
	}
	return o.Length > l.Length
}

// length returns how long the Pod was routed to, by the last request that proves it, else by the last that may have
// been sent to it.
func (s *PodStop) length(r *Race) time.Duration {
	last := s.routed
	if last < 0 {
		last = min(s.gone, r.Last)
	}
	return max(0, last-s.At.Earliest)
}
