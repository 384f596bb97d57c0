package selftest

import (
	"fmt"
	"math"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// figures wants what a target's totals say to follow from its requests: counts, latencies and coverage.
func (t Trial) figures() *check {
	c := &check{text: "counts, latencies and coverage are those of the recording", things: "figures"}
	failed := 0
	for _, target := range t.Live.Targets {
		if !target.Kind.Judged() {
			continue
		}
		on := t.Books.of(target.ID)
		failed += on.count(func(f flight) bool { return f.class.Failed() })
		c.counts(target, windowsOf(t.Live, target.Name), on)
		c.latency(target, on.latencies())
		c.coverage(target, t.Live)
	}
	c.count(model.Target{Name: "all"}, "failed", t.Live.Verdict.Failed, failed)
	return c
}

func (c *check) count(target model.Target, what string, said, found int) {
	c.judge(said == found, Wrong{Target: target.Name, What: what, Join: Join, Detail: fmt.Sprintf("said %d, on record %d", said, found)})
}

// counts compares a target's totals, and those of its windows: each failure is in one of them.
func (c *check) counts(target model.Target, windows []model.Window, on recorded) {
	failed, slow := 0, 0
	for _, w := range windows {
		failed += w.Failed
		slow += w.Slow
	}
	isFailed := on.count(func(f flight) bool { return f.class.Failed() })
	isGood := on.count(func(f flight) bool { return f.class == timeline.OK })
	isSlow := on.count(func(f flight) bool { return f.class == timeline.OK && !f.delayed && f.took() > SlowBar })
	c.count(target, "failed", target.Failed, isFailed)
	c.count(target, "failed in windows", failed, isFailed)
	c.count(target, "slow in windows", slow, isSlow)
	c.count(target, "ok", target.OK, isGood)
	c.count(target, "sent", target.Sent, isFailed+isGood)
}

// latency compares quantiles, which are said with three digits. Which of two neighbours a quantile is, is a matter of convention.
func (c *check) latency(target model.Target, found []time.Duration) {
	if target.Latency == nil || len(found) == 0 {
		c.judge(target.Latency == nil && len(found) == 0, Wrong{Target: target.Name, What: "latency", Join: Join})
		return
	}
	said := target.Latency
	for _, q := range []struct {
		name  string
		share float64
		said  time.Duration
	}{{"p50", 0.5, said.P50}, {"p90", 0.9, said.P90}, {"p99", 0.99, said.P99}, {"p99.9", 0.999, said.P999}, {"max", 1, said.Max}} {
		rank := int(q.share * float64(len(found)))
		least, most := found[max(0, rank-2)], found[min(len(found)-1, rank+1)]
		if q.share == 1 {
			least = most
		}
		ok := q.said >= scale(least, 0.998)-time.Microsecond && q.said <= scale(most, 1.002)+time.Microsecond
		c.judge(ok, Wrong{Target: target.Name, What: "latency " + q.name, Join: Join, Detail: fmt.Sprintf("said %v, on record %v to %v", q.said, least, most)})
	}
}

// coverage wants it to be what the unobserved time leaves.
func (c *check) coverage(target model.Target, tl *model.Timeline) {
	c.judge(covers(target, tl), Wrong{
		Target: target.Name, What: "coverage", Join: Join,
		Detail: fmt.Sprintf("said %.6f, unobserved time leaves %.6f", target.Coverage, observed(target, tl)),
	})
}

// covers reports whether the coverage of a target is right, and the run's no better.
func covers(target model.Target, tl *model.Timeline) bool {
	return math.Abs(target.Coverage-observed(target, tl)) < 1e-6 && tl.Verdict.Coverage <= target.Coverage
}

// observed is the share of a target's measured time that is not unobserved. A target's unobserved times do not overlap.
func observed(target model.Target, tl *model.Timeline) float64 {
	dark := time.Duration(0)
	for _, u := range tl.Unobserved {
		if u.Target == target.Name {
			dark += u.End - u.Start
		}
	}
	return 1 - float64(dark)/float64(target.Measured.Latest-target.Measured.Earliest)
}

// limits wants the detection limit to be the longest time without a request that was observed: no less, or more may escape than
// it says; no more, or it says nothing. And no outage longer than it may have escaped.
func (t Trial) limits(views []View) *check {
	c := &check{text: "what may have escaped is no longer than the run says", things: "limits and outages not seen"}
	for _, v := range views {
		on := t.Books.of(v.Target.ID)
		least, most := t.silence(v.Target, on)
		c.judge(least <= v.Target.Resolution && v.Target.Resolution <= most, Wrong{
			Target: v.Target.Name, What: "detection limit", Join: Join,
			Detail: fmt.Sprintf("said %v; longest time without a request %v to %v", v.Target.Resolution, least, most),
		})
		c.lost(v, on)
	}
	return c
}

// lost judges the outages of every request that a target observed and did not see.
func (c *check) lost(v View, on recorded) {
	for _, s := range v.Sights {
		if !s.Truth.Class().total() || s.Fate == Found || s.Fate == Unobserved {
			continue
		}
		wrong := s.wrongly("above the limit", s.Truth.Start.From)
		wrong.Detail = fmt.Sprintf("took %v, detection limit %v", s.Truth.Length(), v.Target.Resolution)
		c.judge(s.Truth.Length() <= v.Target.Resolution+on.longestAt(s.Truth), wrong)
	}
}

// longestAt is the longest that a request took that was under way during a truth: the server reads it so much later than it was
// sent, at most.
func (r recorded) longestAt(t Truth) (longest time.Duration) {
	for _, f := range r {
		if t.touches(f.sent, f.done) {
			longest = max(longest, f.took())
		}
	}
	return longest
}

// silence is the longest time in which a target was sent no request: not counting times of which some was unobserved, and counting
// those.
func (t Trial) silence(target model.Target, on recorded) (observed, all time.Duration) {
	on.gaps(target.Measured.Earliest, target.Measured.Latest, func(from, to time.Duration) {
		all = max(all, to-from)
		if !dark(t.Live, target.Name, from, to) {
			observed = max(observed, to-from)
		}
	})
	return observed, all
}
