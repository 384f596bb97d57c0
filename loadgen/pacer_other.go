//go:build !linux

package loadgen

import "time"

func preciseSleep() {}

// sleep is as good as Go's timers are: about a millisecond.
func sleep(d time.Duration) { time.Sleep(d) }

const holdsProcessor = false
