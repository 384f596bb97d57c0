package timeline

import "time"

// How late a prober may be, and what a judgement takes for a hole, are three limits that belong together: what is
// sent is sent within [MaxLateness], so two sends of a prober that was on time are at most [UsualGap] apart, and only
// a longer gap than [GapLimit] is unobserved. By default each is at most the next. All depend on the interval between
// two due instants; 0: it is not known.
const (
	// ShortestStop is for how long a prober must not have run to count as stopped. A shorter time does not prove that
	// it was.
	ShortestStop = 10 * time.Millisecond

	lateAfter         = 5 * time.Millisecond
	usualIntervals    = 3
	longestLateness   = 100 * time.Millisecond
	resolution        = 50 * time.Millisecond
	resolvedIntervals = 10
)

// MaxLateness is how late a request may be sent: 3 intervals, but 10 to 100 ms. One that would be sent later is not
// sent, and is recorded as [NotSent].
func MaxLateness(interval time.Duration) time.Duration {
	return min(UsualGap(interval), longestLateness)
}

// UsualGap is the longest time between two sends of a prober that is on time: 3 intervals, and 10 ms at least. In a
// longer gap it was late, or did not run.
func UsualGap(interval time.Duration) time.Duration {
	return max(usualIntervals*interval, ShortestStop)
}

// GapLimit is for how long nothing may be sent to a target, while nothing is in flight, for the time to count as
// observed. asked is [Options.Resolution]: 0 stands for 50 ms or 10 intervals, whichever is longer. Whatever was
// asked, 3 intervals are observed.
func GapLimit(interval, asked time.Duration) time.Duration {
	if asked > 0 {
		return max(asked, usualIntervals*interval)
	}
	return max(resolution, resolvedIntervals*interval)
}
