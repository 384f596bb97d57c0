package verdict

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file is about held connections: what a verdict says of them, and their gates.

// heldSum is what became of the connections of all held targets.
type heldSum struct {
	connections, stood, cut, unwarned, missing, stopped, unproven int
	back                                                          *model.Length
	before, after                                                 map[string]int
	open                                                          bool
}

func sumHeld(tl *model.Timeline) heldSum {
	s := heldSum{before: map[string]int{}, after: map[string]int{}}
	for _, h := range tl.Held {
		s.connections, s.stood, s.cut, s.unwarned = s.connections+h.Connections, s.stood+h.Stood, s.cut+h.Cut,
			s.unwarned+h.Unwarned
		s.missing, s.stopped, s.unproven, s.open = s.missing+h.Missing, s.stopped+h.Stopped, s.unproven+h.Unproven,
			s.open || h.Open
		for pod, n := range h.Before {
			s.before[pod] += n
		}
		for pod, n := range h.After {
			s.after[pod] += n
		}
		switch {
		case h.Back == nil:
		case s.back == nil:
			s.back = new(*h.Back)
		default:
			s.back = &model.Length{Min: min(s.back.Min, h.Back.Min), Max: max(s.back.Max, h.Back.Max)}
		}
	}
	return s
}

// HeldFound says what became of held connections, in a sentence; "" if none were held.
func HeldFound(tl *model.Timeline) string {
	s := sumHeld(tl)
	switch {
	case s.connections == 0:
		return ""
	case s.stood == 0:
		return fmt.Sprintf("none of %d held connections ever stood", s.connections)
	case s.cut == 0 && s.stood < s.connections:
		return fmt.Sprintf("%d of %d held connections never stood, none of the others was cut", s.connections-s.stood,
			s.connections)
	case s.cut == 0:
		return fmt.Sprintf("none of %d held connections was cut", s.connections)
	}
	parts := []string{fmt.Sprintf("%d of %d held connections %s cut, %s without a warning", s.cut, s.connections,
		wereOrWas(s.cut), allOr(s.unwarned, s.cut))}
	if s.back != nil {
		parts = append(parts, "back after "+BackText(*s.back))
	}
	if s.missing > 0 {
		parts = append(parts, fmt.Sprintf("%d did not stand again", s.missing))
	}
	if text := imbalance(s.before, s.after); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func wereOrWas(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func allOr(n, of int) string {
	switch {
	case n == 0:
		return "none"
	case n == of && of > 1:
		return "all"
	}
	return fmt.Sprint(n)
}

// BackText prints the shortest and the longest time until connections stood again.
func BackText(back model.Length) string {
	if shortest, longest := quantity.Span(back.Min), quantity.Span(back.Max); shortest != longest {
		return shortest + " to " + longest
	}
	return quantity.Span(back.Max)
}

// imbalance says which Pod has most of the connections now, if they are spread less evenly than before; "" if they
// are not, or if replies do not name Pods.
func imbalance(before, after map[string]int) string {
	pod, share := most(after)
	_, was := most(before)
	if pod == "" || share <= was {
		return ""
	}
	return fmt.Sprintf("%s of the connections are on %s now, and no Pod had more than %s before",
		quantity.Percent(share), pod, quantity.Percent(was))
}

// most returns the Pod with the most connections, of several always the same, and its share of all.
func most(of map[string]int) (pod string, share float64) {
	sum := 0
	for name, n := range of {
		if sum += n; n > of[pod] || n == of[pod] && (pod == "" || name < pod) {
			pod = name
		}
	}
	if sum == 0 {
		return "", 0
	}
	return pod, float64(of[pod]) / float64(sum)
}

// heldDoubts returns the reasons for which a run does not pass whose held connections did not stand, or are not on
// record.
func heldDoubts(tl *model.Timeline) (doubts []string) {
	s := sumHeld(tl)
	if s.stood < s.connections {
		doubts = append(doubts,
			fmt.Sprintf("%d of %d held connections never stood: what would have become of them is not known",
				s.connections-s.stood, s.connections))
	}
	if s.open {
		doubts = append(doubts,
			"what became of held connections is not wholly on record: more of them may have been cut")
	}
	return doubts
}

// heldCount returns a gate's value that counts connections that were cut. Those may be more that a stop of the prober
// may have cut, and those whose last heartbeats were not answered.
func heldCount(count func(heldSum) int) func(*model.Timeline, *model.Verdict) (model.Range, bool) {
	return func(tl *model.Timeline, _ *model.Verdict) (model.Range, bool) {
		s := sumHeld(tl)
		n := count(s)
		return model.Range{Min: float64(n), Max: float64(n + s.stopped + s.unproven), Open: s.open}, s.stood > 0
	}
}

// heldBack returns the longest time until a connection that was cut stood again. One that has not had at least the time
// until the end.
func heldBack(tl *model.Timeline, _ *model.Verdict) (model.Range, bool) {
	s := sumHeld(tl)
	longest := LongestBack(tl).Max
	if s.back != nil {
		longest = max(longest, s.back.Max)
	}
	return model.Range{Min: float64(longest), Max: float64(longest), Open: s.missing > 0 || s.open}, s.stood > 0
}

// LongestBack returns the longest time until one of the listed connections stood again, as the client saw it (Max), and
// without the prober's wait for another attempt (Min).
func LongestBack(tl *model.Timeline) (longest model.Length) {
	for _, h := range tl.Held {
		end := tl.Run.Duration
		if i := slices.IndexFunc(tl.Targets, func(t model.Target) bool { return t.Name == h.Target }); i >= 0 {
			end = min(end, tl.Targets[i].Measured.Latest)
		}
		for _, c := range h.List {
			after := end - c.Cut.Latest
			if c.After != nil {
				after = *c.After
			}
			if !c.Stopped {
				longest.Min, longest.Max = max(longest.Min, after-c.Waited), max(longest.Max, after)
			}
		}
	}
	return longest
}
