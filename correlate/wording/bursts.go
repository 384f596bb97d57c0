package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
)

// This file says when the requests of an incident failed, where that was not all the time.

// A burst is from a failed request to another, with none that failed long before or after.
type burst struct{ from, to time.Duration }

// bursts returns when requests of these windows failed. Failures less than the run's join apart are one burst.
func (s *scene) bursts(windows []*model.Window) (bursts []burst) {
	var all []burst
	for _, w := range windows {
		if w.FailedFrom != nil && w.FailedTo != nil {
			all = append(all, burst{*w.FailedFrom, *w.FailedTo})
		}
	}
	slices.SortFunc(all, func(a, b burst) int { return cmp.Compare(a.from, b.from) })
	for _, b := range all {
		if n := len(bursts); n > 0 && b.from < bursts[n-1].to+s.apart() {
			bursts[n-1].to = max(bursts[n-1].to, b.to)
			continue
		}
		bursts = append(bursts, b)
	}
	return bursts
}

// apart returns the least time without a failure that parts two bursts.
func (s *scene) apart() time.Duration { return max(s.tl.Run.Join, time.Second) }

func lengthOf(bursts []burst) (total time.Duration) {
	for _, b := range bursts {
		total += b.to - b.from
	}
	return total
}

// mostBursts is how many bursts are said one by one.
const mostBursts = 3

// spansOf says when the requests of a kind failed; "" if that is about all the time of the incident.
func (in *incident) spansOf(k *kindLoss) string {
	bursts := in.run.bursts(k.windows)
	if len(bursts) == 0 || in.FailedFrom == nil || in.FailedTo == nil || in.Recurs != nil {
		return ""
	}
	first, last := bursts[0], bursts[len(bursts)-1]
	if len(bursts) == 1 {
		if apart := in.run.apart(); first.from-*in.FailedFrom < apart && *in.FailedTo-last.to < apart {
			return ""
		}
		return in.run.span(first)
	}
	if len(bursts) > mostBursts {
		return fmt.Sprintf("in %d bursts, %s", len(bursts), in.run.span(burst{first.from, last.to}))
	}
	spans := make([]string, len(bursts))
	for i, b := range bursts {
		spans[i] = in.run.span(b)
	}
	return fmt.Sprintf("in %d bursts, %s", len(bursts), strings.Join(spans, " and "))
}

// span writes a burst: "12:00:01.000 to 12:00:02.300", "at 12:00:01.000".
func (s *scene) span(b burst) string {
	if b.from == b.to {
		return "at " + s.clock(b.from)
	}
	return s.clock(b.from) + " to " + s.clock(b.to)
}
