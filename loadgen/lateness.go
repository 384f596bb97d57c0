package loadgen

import (
	"time"

	"lapse/timeline"
)

// tooLate reports whether a request due at due is not worth sending at now any more. Sending
// everything that a stop held up would hit the service with a burst, and prove nothing of the time
// it was due at; and its lateness would pass for latency. What is late by less is sent, and counted as late.
func tooLate(due, now, interval time.Duration) bool {
	return now-due > timeline.MaxLateness(interval)
}

// floorMicros and ceilMicros round to the microseconds that the recording keeps.
func floorMicros(d time.Duration) time.Duration { return d.Truncate(time.Microsecond) }

func ceilMicros(d time.Duration) time.Duration {
	if floor := floorMicros(d); floor < d {
		return floor + time.Microsecond
	}
	return d
}
