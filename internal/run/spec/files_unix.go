//go:build unix

package spec

import (
	"math"
	"syscall"
)

// openFiles returns how many files this process may open. If it is not known, a request that finds no file fails, and
// is shown.
func openFiles() float64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.Inf(1)
	}
	return float64(limit.Cur)
}
