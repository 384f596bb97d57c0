package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const (
	routeLag = "route-lag"
	theCause = "route-outlives-pod"
)

// named is a lag that Lapse names: in a window's first cause, of a Pod.
type named struct {
	Target string // "web new"
	Window int
	Pod    string
	Lag    drill.Length
}

func (r *result) compare() {
	r.named, r.fixes = statements(r.run.Timeline)
	r.wrong = contradictions(r.run.Timeline, r.Truth, r.named, r.fixes)
}

// statements collects what a timeline says of routes that outlived Pods.
func statements(t drill.Timeline) (lags []named, fixes []string) {
	for _, w := range t.Windows {
		if len(w.Causes) == 0 {
			continue
		}
		cause := w.Causes[0]
		for _, m := range cause.Measures {
			if m.Name == routeLag {
				pod := m.Object[strings.LastIndex(m.Object, "/")+1:]
				lags = append(lags, named{Target: w.Target, Window: w.ID, Pod: pod, Lag: m.Length})
			}
		}
		if cause.Rule == theCause && !slices.Contains(fixes, cause.Fix) {
			fixes = append(fixes, cause.Fix)
		}
	}
	return lags, fixes
}

// contradictions are the statements that cannot be true, and what should have been said and was not.
func contradictions(t drill.Timeline, truth []podTruth, lags []named, fixes []string) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	times := map[string]int{}
	for _, n := range lags {
		times[n.Target+" "+n.Pod]++
		i := slices.IndexFunc(truth, func(p podTruth) bool { return p.Name == n.Pod })
		if i < 0 {
			say("window %d of %s names %s, which did not end", n.Window, n.Target, n.Pod)
			continue
		}
		switch lag := truth[i].Lag(); {
		case n.Lag.Min > lag.Max:
			say("window %d of %s: %s for %s ms, at most %s were possible", n.Window, n.Target, n.Pod, millis(n.Lag), millis(lag))
		case n.Lag.Max < lag.Min:
			say("window %d of %s: %s for %s ms, the routes outlived it by %s", n.Window, n.Target, n.Pod, millis(n.Lag), millis(lag))
		}
	}
	for who, n := range times {
		if n > 1 {
			say("%s is named %d times", who, n)
		}
	}
	slices.Sort(wrong)
	for _, p := range truth {
		if fresh, err := t.Target("web new"); err == nil && mustShow(p, len(truth), fresh) && times["web new "+p.Name] == 0 {
			say("%s is not named, though the routes outlived it by %s ms", p.Name, millis(p.Lag()))
		}
	}
	if len(fixes) > 1 {
		say("%d different fixes", len(fixes))
	}
	return wrong
}

// mustShow reports whether a Pod's lag was so long that requests on new connections certainly met it: one in n + 1 goes to
// each endpoint while a further Pod is there beside n. The longest time without a request is taken off.
func mustShow(p podTruth, n int, fresh drill.Target) bool {
	const oversight = 1e-6 // chance that all of them went elsewhere
	requests := math.Log(oversight) / math.Log(1-1/float64(n+1))
	needed := time.Duration(requests / fresh.Rate * float64(time.Second))
	return p.Lag().Min-fresh.Resolution > needed
}
