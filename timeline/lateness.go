package timeline

import "time"

// Three limits say how late a prober may be, and which gaps are unobserved. A request is sent within [MaxLateness] or
// not at all. So two sends of a prober that is on time are at most [UsualGap] apart. Only a gap longer than [GapLimit]
// is unobserved. By default each limit is at most the next. All depend on the interval between two due instants; 0 is
// unknown.
const (
	// ShortestStop is the shortest time without running for which a prober counts as stopped. A shorter time proves
	// nothing.
	ShortestStop = 10 * time.Millisecond

	lateAfter         = 5 * time.Millisecond
	usualIntervals    = 3
	longestLateness   = 100 * time.Millisecond
	resolution        = 50 * time.Millisecond
	resolvedIntervals = 10
)

// MaxLateness returns how late a request may be sent: 3 intervals, but 10 to 100 ms. A request that would be later is
// not sent, and is recorded as [NotSent].
func MaxLateness(interval time.Duration) time.Duration {
	return min(UsualGap(interval), longestLateness)
}

// UsualGap returns the longest time between two sends of a prober that is on time: 3 intervals, and at least 10 ms. In
// a longer gap it was late, or did not run.
func UsualGap(interval time.Duration) time.Duration {
	return max(usualIntervals*interval, ShortestStop)
}

// GapLimit returns the longest gap between two sends to a target, with nothing in flight, that counts as observed.
// asked is [Options.Resolution]: 0 stands for 50 ms or 10 intervals, whichever is longer. It is at least 3 intervals.
func GapLimit(interval, asked time.Duration) time.Duration {
	if asked > 0 {
		return max(asked, usualIntervals*interval)
	}
	return max(resolution, resolvedIntervals*interval)
}
