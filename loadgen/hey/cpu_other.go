//go:build !unix

package hey

import "time"

func cpuUsed() (time.Duration, bool) { return 0, false }
