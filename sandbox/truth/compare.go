package truth

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const (
	routeLag = "route-lag"
	theCause = "route-outlives-pod"
)

// Named is a Pod's lag that Lapse names in a window's first cause.
type Named struct {
	Target string // "web new"
	Window int
	Pod    string
	Lag    drill.Length
}

// Statements collects what a timeline says of routes that outlived Pods.
func Statements(t drill.Timeline) (lags []Named, fixes []string) {
	for _, w := range t.Windows {
		if len(w.Causes) == 0 {
			continue
		}
		cause := w.Causes[0]
		for _, m := range cause.Measures {
			if m.Name == routeLag {
				pod := m.Object[strings.LastIndex(m.Object, "/")+1:]
				lags = append(lags, Named{Target: w.Target, Window: w.ID, Pod: pod, Lag: m.Length})
			}
		}
		if cause.Rule == theCause && !slices.Contains(fixes, cause.Fix) {
			fixes = append(fixes, cause.Fix)
		}
	}
	return lags, fixes
}

// Contradictions returns the statements that cannot be true, and those that are missing. The Service had replicas
// Pods, and one more while they were replaced.
func Contradictions(t drill.Timeline, truth []Pod, replicas int) (wrong []string) {
	lags, fixes := Statements(t)
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	lengths := map[string]drill.Length{} // of each Pod
	named := map[string]bool{}           // of each target its Pods
	said := map[Named]bool{}
	for _, n := range lags {
		if known, ok := lengths[n.Pod]; ok && known != n.Lag {
			say("window %d of %s: %s for %s ms, elsewhere for %s",
				n.Window, n.Target, n.Pod, Millis(n.Lag), Millis(known))
		}
		if said[n] {
			say("window %d of %s names %s twice", n.Window, n.Target, n.Pod)
		}
		lengths[n.Pod], named[n.Target+" "+n.Pod], said[n] = n.Lag, true, true
		i := slices.IndexFunc(truth, func(p Pod) bool { return p.Name == n.Pod })
		if i < 0 {
			say("window %d of %s names %s, which did not end", n.Window, n.Target, n.Pod)
			continue
		}
		switch lag := truth[i].Lag(); {
		case n.Lag.Min > max(0, lag.Max): // routes that ended first outlived the Pod by nothing
			say("window %d of %s: %s for %s ms, at most %s were possible",
				n.Window, n.Target, n.Pod, Millis(n.Lag), Millis(lag))
		case n.Lag.Max < lag.Min:
			say("window %d of %s: %s for %s ms, the routes outlived it by %s",
				n.Window, n.Target, n.Pod, Millis(n.Lag), Millis(lag))
		}
	}
	slices.Sort(wrong)
	for _, p := range truth {
		fresh, err := t.Target("web new")
		if err != nil || named["web new "+p.Name] || !during(t, p) {
			continue
		}
		if mustShow(p.Lag().Min-unobserved(t, p), replicas, fresh) {
			say("%s is not named, though the routes outlived it by %s ms", p.Name, Millis(p.Lag()))
		}
	}
	if len(fixes) > 1 {
		say("%d different fixes", len(fixes))
	}
	return wrong
}

// during reports whether a Pod lost its route while the run went on.
func during(t drill.Timeline, p Pod) bool {
	return t.T0.Before(p.Stopped.Earliest) && p.Routed.Latest.Before(t.T0.Add(t.Run.Duration))
}

// unobserved returns how long new connections were not measured while a Pod's stale route existed.
func unobserved(t drill.Timeline, p Pod) (total time.Duration) {
	from, to := p.Stopped.Latest.Sub(t.T0), p.Routed.Earliest.Sub(t.T0)
	for _, u := range t.Unobserved {
		if u.Target == "web new" {
			total += max(0, min(u.End, to)-max(u.Start, from))
		}
	}
	return total
}

// mustShow reports whether a stale route existed long enough that requests on new connections certainly met it: one
// request in n + 1 goes to each endpoint, while there are n Pods and one more. The longest time without a request is
// subtracted.
func mustShow(lag time.Duration, n int, fresh drill.Target) bool {
	const oversight = 1e-6 // chance that all of them went elsewhere
	requests := math.Log(oversight) / math.Log(1-1/float64(n+1))
	needed := time.Duration(requests / fresh.Rate * float64(time.Second))
	return lag-fresh.Resolution > needed
}

// Millis returns a length's bracket in milliseconds: "655 to 671".
func Millis(l drill.Length) string {
	one := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1000, 'f', 0, 64) }
	return one(l.Min) + " to " + one(l.Max)
}
