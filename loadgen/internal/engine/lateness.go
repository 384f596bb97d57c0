package engine

import (
	"time"

	"lapse/timeline"
)

// TooLate reports whether a request due at due is not worth sending at now any more. Sending
// everything that a stop held up would hit the service with a burst, and prove nothing of the time
// it was due at; and its lateness would pass for latency. What is late by less is sent, and counted as late.
func TooLate(due, now, interval time.Duration) bool {
	return now-due > timeline.MaxLateness(interval)
}

// FloorMicros and ceilMicros round to the microseconds that the recording keeps.
func FloorMicros(d time.Duration) time.Duration { return d.Truncate(time.Microsecond) }

func CeilMicros(d time.Duration) time.Duration {
	if floor := FloorMicros(d); floor < d {
		return floor + time.Microsecond
	}
	return d
}
