package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// validity tells how good the measurement itself was.
func validity(tl *model.Timeline) model.Validity {
	val := model.Validity{Control: controlHealth(tl), LanesOff: lanesOff(tl), NotProbed: notProbed(tl)}
	sent, late, gaps, shortages := 0, 0, gapsByTarget(tl), shortages(tl)
	for i := range tl.Targets {
		t := &tl.Targets[i]
		if !t.Kind.Judged() && t.Kind != timeline.Held {
			continue
		}
		sent += t.Sent + t.NotSent
		late += t.Late
		val.NotSent += t.NotSent
		if short := shortages[t.Name]; short != "" {
			val.Local += t.Classes[timeline.Local.String()]
			val.Shortage = cmp.Or(val.Shortage, short)
		}
		unobserved := time.Duration(0)
		for _, u := range gaps[t.Name] {
			unobserved += u.End - u.Start
		}
		val.Unobserved = max(val.Unobserved, unobserved)
	}
	if sent > 0 {
		val.Late = float64(late) / float64(sent)
	}
	for _, e := range tl.Events {
		switch e.Kind {
		case timeline.WatchGap:
			val.WatchGaps++
		case timeline.ProberStall:
			val.Stalls++
		}
	}
	return val
}

// controlHealth says in a word how the echo server inside the prober fared.
func controlHealth(tl *model.Timeline) string {
	health := "absent"
	for _, t := range tl.Targets {
		switch {
		case t.Kind != timeline.Control || t.Sent == 0:
		case t.Failed > 0:
			failures := map[string]int{}
			for class, n := range t.Classes {
				if class != timeline.OK.String() && class != timeline.NotSent.String() &&
					class != timeline.Local.String() {
					failures[class] = n
				}
			}
			return fmt.Sprintf("%d of %d requests failed: %s", t.Failed, t.Sent, quantity.ClassCounts(failures))
		default:
			health = "ok"
		}
	}
	return health
}

// lanesOff lists the watched kinds that were off at last, for one Service at least.
func lanesOff(tl *model.Timeline) []string {
	lanes, kinds := model.Lanes{}, map[string]bool{}
	for i := range tl.Events {
		e := &tl.Events[i]
		if lanes.Learn(e); e.Kind == timeline.WatchLane && !e.Object.IsZero() {
			kinds[e.Object.Kind] = true
		}
	}
	var off []string
	for kind := range kinds {
		if lanes.Off(strings.ToLower(kind), "") {
			off = append(off, kind)
		}
	}
	slices.Sort(off)
	return off
}

// notProbed counts the Pods with an endpoint that were never probed at their own address, in a run that probes some.
func notProbed(tl *model.Timeline) int {
	probed, seen := map[string]bool{}, map[string]bool{}
	for _, t := range tl.Targets {
		if t.Kind == timeline.Direct && t.PodUID != "" {
			probed[t.PodUID] = true
		}
	}
	for _, e := range tl.Events {
		if e.Kind == timeline.EndpointChanged && e.Object.Kind == "Pod" && len(probed) > 0 &&
			!probed[e.Object.UID] {
			seen[e.Object.UID] = true
		}
	}
	return len(seen)
}

// shortages returns, for each target, the system's error where the prober ran out of something as it asked the target.
func shortages(tl *model.Timeline) map[string]string {
	short, known := map[string]string{}, slices.Concat(noFiles, noPorts, noMemory)
	for i := range tl.Events {
		e := &tl.Events[i]
		if e.Kind != timeline.RequestError || e.To != timeline.Local.String() || short[e.Object.Name] != "" {
			continue
		}
		for _, text := range known {
			if strings.Contains(e.Detail, text) {
				short[e.Object.Name] = text
				break
			}
		}
	}
	return short
}

// The system's errors that say that the prober's process or machine ran out of something.
var (
	noFiles  = []string{"too many open files"}
	noPorts  = []string{"cannot assign requested address", "address already in use", "resource temporarily unavailable"}
	noMemory = []string{"no buffer space available", "cannot allocate memory"}
)
