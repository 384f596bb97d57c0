//go:build !unix

package loadgen

import "time"

func cpuUsed() (time.Duration, bool) { return 0, false }
