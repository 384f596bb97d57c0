package verdict

import (
	"math"
	"slices"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file has the values of gates for runs that measure from several nodes.

// routeLag returns the lag that a share of all removals, as each node saw them, do not exceed. Each lag is a bracket,
// so the result lies between the quantile of the lower ends and that of the upper ends. A lag has no upper end if
// nothing is known of the removal, or if the node was not seen to follow it.
func routeLag(share float64) func(*model.Timeline, *model.Verdict) (model.Range, bool) {
	return func(tl *model.Timeline, _ *model.Verdict) (model.Range, bool) {
		var least, most []float64
		for _, r := range tl.Routes {
			if r.Change != model.Removal {
				continue
			}
			least = append(least, float64(r.Lag.Min))
			if r.Open {
				most = append(most, math.Inf(1))
			} else {
				most = append(most, float64(r.Lag.Max))
			}
		}
		if len(least) == 0 {
			return model.Range{}, false
		}
		for range unknownRemovals(tl) {
			least, most = append(least, 0), append(most, math.Inf(1))
		}
		slices.Sort(least)
		slices.Sort(most)
		at := int(math.Ceil(share*float64(len(least)))) - 1
		r := model.Range{Min: least[at], Max: most[at]}
		if r.Open = math.IsInf(r.Max, 1); r.Open {
			r.Max = r.Min
		}
		return r, true
	}
}

// unknownRemovals counts, for each node that measured, the endpoints for which nothing says when its routes followed
// their removal: no request from there was answered by the Pod, or its endpoint left more than once.
func unknownRemovals(tl *model.Timeline) (n int) {
	type removal struct {
		target string
		event  uint32
	}
	known := map[removal]bool{}
	for _, r := range tl.Routes {
		known[removal{r.Target, r.Event}] = true
	}
	for i := range tl.Targets {
		t := &tl.Targets[i]
		if t.Kind != timeline.New || t.Service == "" || !fromProber(tl, t) {
			continue
		}
		for _, e := range tl.Events {
			if leftEndpoint(e, t) && !known[removal{t.Name, e.ID}] {
				n++
			}
		}
	}
	return n
}

// leftEndpoint reports whether an event is a Pod's endpoint that left the target's Service while the target was
// measured.
func leftEndpoint(e model.Event, t *model.Target) bool {
	return e.Kind == timeline.EndpointChanged && e.Object.Kind == "Pod" && e.Service == t.Service &&
		e.PortName == t.PortName &&
		e.From == timeline.EndpointReady && e.To != timeline.EndpointReady &&
		t.Measured.Earliest <= e.At.Earliest && e.At.Latest <= t.Measured.Latest
}

// fromProber reports whether a prober of --from sends the target's requests.
func fromProber(tl *model.Timeline, t *model.Target) bool {
	return slices.ContainsFunc(tl.Sources, func(s model.Source) bool {
		return s.Name == t.Source && s.Role == timeline.Prober
	})
}

// sourcesCoverage returns the coverage of the source, or of the node that was to have one, that observed least.
func sourcesCoverage(tl *model.Timeline, v *model.Verdict) (model.Range, bool) {
	least := v.Coverage
	for _, n := range v.Nodes {
		least = min(least, n.Coverage)
	}
	for _, s := range tl.Sources {
		if s.Coverage != nil {
			least = min(least, *s.Coverage)
		}
	}
	return exactly(least), true
}
