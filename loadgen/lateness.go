package loadgen

import "time"

// tooLate reports whether a request due at due is not worth sending at now any more. Sending
// everything that a stop held up would hit the service with a burst, and prove nothing of the time
// it was due at; and its lateness would pass for latency. What is late by less is sent, and counted as late.
func tooLate(due, now, interval time.Duration) bool {
	return now-due > maxLateness(interval)
}

// maxLateness is 3 intervals, but 10 to 100 ms. It is what is recorded, and shorter than what a judgement takes for a hole
// by default (correlate.Options.Resolution), so that a run can be judged again at a finer resolution.
func maxLateness(interval time.Duration) time.Duration {
	return min(max(3*interval, shortestStop), 100*time.Millisecond)
}

// floorMicros and ceilMicros round to the microseconds that the recording keeps.
func floorMicros(d time.Duration) time.Duration { return d.Truncate(time.Microsecond) }

func ceilMicros(d time.Duration) time.Duration {
	if floor := floorMicros(d); floor < d {
		return floor + time.Microsecond
	}
	return d
}
