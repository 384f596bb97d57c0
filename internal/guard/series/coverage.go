package series

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"lapse/timeline"
)

// A coverage adds up how long the judged targets of a measurement were observed, from one run to the next: the time
// between two sends, unless it is longer than the rate allows. It is a sum, and judges nothing. Targets of probers on
// other nodes do not count: these come and go with their nodes.
type coverage struct {
	resolution time.Duration     // --resolution; 0: it depends on the rate
	here       timeline.SourceID // this process; 0: not described yet
	targets    map[timeline.TargetID]*covered
	gap        bool // for longer than mostUnseen nothing was observed of a target; [coverage.missed] resets it
}

// mostUnseen is how long nothing may be observed until what was not measured may be a disruption that nobody saw.
// Shorter gaps are those of a busy machine: a run counts them, and the alert LapseBlind does.
const mostUnseen = 9 * time.Second

// A covered is the observed time of a target.
type covered struct {
	name     string
	timeout  time.Duration
	interval time.Duration
	slower   time.Duration // the longer one of two intervals, of which one ended at changed
	changed  time.Duration

	waiting  []timeline.Request // that may not be all of their time yet
	last     time.Duration      // sent; -1: none
	done     time.Duration      // until when a request was in flight
	observed time.Duration
}

func (c *coverage) add(f timeline.Fact) {
	switch f := f.(type) {
	case timeline.Source:
		c.here = cmp.Or(c.here, f.ID)
	case timeline.Target:
		if f.Source == c.here && f.Kind.Judged() && c.targets[f.ID] == nil {
			c.targets[f.ID] = &covered{name: f.Name, timeout: f.Timeout, interval: f.Interval(), last: -1}
		}
	case timeline.Event:
		rate, err := strconv.ParseFloat(f.To, 64)
		if f.Kind != timeline.RateChanged || err != nil || rate <= 0 {
			return
		}
		for _, t := range c.targets {
			if t.name == f.Object.Name {
				t.changes(f.Seen, time.Duration(float64(time.Second)/rate))
			}
		}
	case timeline.Batch:
		for _, q := range f.Requests {
			if t := c.targets[q.Target]; t != nil && q.Class.Observed() {
				t.waiting = append(t.waiting, q)
			}
		}
		for _, w := range f.Watermarks {
			if t := c.targets[w.Target]; t != nil {
				c.gap = t.settle(w.Due, c.resolution) || c.gap
			}
		}
	}
}

// missed reports whether there was a gap since the call before.
func (c *coverage) missed() bool {
	gap := c.gap
	c.gap = false
	return gap
}

func (t *covered) changes(at, interval time.Duration) {
	t.slower, t.changed, t.interval = max(t.interval, interval), at, interval
}

// settle takes in the requests that were due before an instant: there are no others. It reports whether there was a
// gap.
func (t *covered) settle(due, resolution time.Duration) (gap bool) {
	slices.SortFunc(t.waiting, func(a, b timeline.Request) int { return int(a.Sent - b.Sent) })
	rest := t.waiting[:0]
	for _, q := range t.waiting {
		if q.Due < due {
			gap = t.unseen(q.Sent, resolution) || gap
			t.take(q, resolution)
		} else {
			rest = append(rest, q)
		}
	}
	t.waiting = rest
	return gap || t.unseen(due, resolution)
}

// unseen reports whether nothing was observed for long until an instant.
func (t *covered) unseen(until, resolution time.Duration) bool {
	return t.last >= 0 && until-max(t.last, t.done) > max(mostUnseen, t.limit(resolution))
}

func (t *covered) take(q timeline.Request, resolution time.Duration) {
	switch gap := q.Sent - t.last; {
	case t.last < 0, gap <= 0:
	case gap <= t.limit(resolution):
		t.observed += gap
	default: // it is observed while a request is in flight
		t.observed += min(max(0, t.done-t.last), gap)
	}
	t.last, t.done = max(t.last, q.Sent), max(t.done, q.Done)
}

// limit returns how long the time between the last send and the next may be, as correlate has it.
func (t *covered) limit(resolution time.Duration) time.Duration {
	interval := t.interval
	if t.last <= t.changed+t.slower {
		interval = max(interval, t.slower)
	}
	if resolution > 0 {
		return max(resolution, 3*interval)
	}
	return max(50*time.Millisecond, 10*interval)
}

// observed returns the least observed time of any target.
func (c *coverage) observed() time.Duration {
	return c.least(func(t *covered) time.Duration { return t.observed })
}

// last returns when the target that was last sent to longest ago was sent to; -1: there is one that was not.
func (c *coverage) last() time.Duration {
	return max(-1, c.least(func(t *covered) time.Duration { return t.last }))
}

// timeout returns the per-request timeout.
func (c *coverage) timeout() time.Duration {
	return c.least(func(t *covered) time.Duration { return t.timeout })
}

// interval returns the longest time between two requests to a target.
func (c *coverage) interval() (longest time.Duration) {
	for _, t := range c.targets {
		longest = max(longest, t.interval)
	}
	return longest
}

// least returns the least of all targets, 0 if there is none.
func (c *coverage) least(of func(*covered) time.Duration) time.Duration {
	least, any := time.Duration(0), false
	for _, t := range c.targets {
		if !any || of(t) < least {
			least, any = of(t), true
		}
	}
	return least
}
